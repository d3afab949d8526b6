enum JanuaryModule {}

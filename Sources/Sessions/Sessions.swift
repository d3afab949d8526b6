enum SessionsModule {}

enum PolicyModule {}

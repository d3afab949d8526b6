enum JOSEModule {}

enum EndUsersModule {}

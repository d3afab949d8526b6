enum HTTPMessageModule {}

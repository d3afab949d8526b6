enum HTTPClientModule {}

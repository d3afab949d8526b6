enum HTTPServerModule {}

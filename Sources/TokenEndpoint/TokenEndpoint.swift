enum TokenEndpointModule {}

enum TLSModule {}

enum StrictJSONModule {}

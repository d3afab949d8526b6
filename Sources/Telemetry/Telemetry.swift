enum TelemetryModule {}

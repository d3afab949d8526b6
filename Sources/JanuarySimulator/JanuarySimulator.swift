enum JanuarySimulatorModule {}

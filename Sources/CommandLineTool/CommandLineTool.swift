enum CommandLineToolModule {}

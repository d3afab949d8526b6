enum ConfigurationModule {}

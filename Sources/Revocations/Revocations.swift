/// Fences and the durable work behind a revocation.
enum RevocationsModule {}

/// The generic cell rate algorithm (ITU-T I.371): the arithmetic of a limit, and nothing else.
enum GCRAModule {}

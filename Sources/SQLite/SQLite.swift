/// One SQLite file on one thread of its own: transactions, bound parameters only.
enum SQLiteModule {}

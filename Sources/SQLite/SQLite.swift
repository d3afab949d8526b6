/// SQLite's C library behind three types: ``SQLiteError`` says what went wrong in the caller's terms, ``SQLiteDatabase`` is one
/// connection to one file (WAL, `synchronous=FULL`, exclusive), ``SQLiteThread`` gives it a thread and shares one commit among all that wait.
///
/// Shapes: values are bound, never written into the text of a statement; text is UTF-8, blobs are `[UInt8]`, numbers `Int64`.
/// Errors: ``SQLiteError``, closed, with a bounded `reason`. SQLite's own messages hold paths and SQL only, never values that were bound.
/// Threads: a ``SQLiteDatabase`` belongs to whoever has it; ``SQLiteThread`` is for any thread.
/// Source: https://www.sqlite.org/c3ref/intro.html, https://www.sqlite.org/wal.html
enum SQLiteModule {}

/// JSON as RFC 8259 says and not one byte more: for tokens, key sets and bodies that come from strangers.
///
/// * ``JSONValue/parse(_:limits:)`` reads a complete text. Whatever two readers could understand differently is refused: two members
///   with the same name (RFC 8259 section 4; compared after unescaping, at every level), invalid UTF-8, lone surrogates, a byte order
///   mark, anything behind the value.
/// * Sizes: ``JSONLimits`` holds the largest text in bytes and the deepest nesting. The work is linear in the text.
/// * Numbers keep their text (``JSONNumber``), so that none can trap or lose digits before somebody asks for a value.
/// * Strings and names are compared by their bytes, never by Unicode equivalence: `é` written in two ways is two names.
/// * Failure is one type, ``JSONParseError``: a closed reason (usable as a metric label) and the offset.
enum StrictJSONModule {}

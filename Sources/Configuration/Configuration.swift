/// The configuration mechanism: one YAML file and the environment become typed values, and everything wrong is found at once.
///
/// Shape: ``ConfigReader/load(file:environment:)`` reads the file (libyaml's events, with line numbers) into a tree of nodes, lays the
/// environment variables of ``EnvironmentTable`` over it, and hands out the ``ConfigSection`` at the root. Every target reads its own
/// section through typed getters. A getter never throws: it records a ``ConfigProblem`` and answers with the default, so that one run
/// names every problem. Getters also record what they answered and where it came from, which is what ``ConfigPrinter`` prints and what
/// ``ConfigKeyRecord`` lists.
///
/// Units: times are whole or fractional seconds, sizes are bytes. Limits: a file has at most 1 MiB and 16 levels, a secret 64 KiB.
///
/// Refused in the file, because each hides what a line means: anchors, aliases, tags, merge keys, several documents, duplicate keys, keys
/// that are not text. Scalars are read by the type the key wants: `no` in a list of names is the name; a quoted `"8"` is text, never a
/// number. JSON is read by the same parser; characters beyond U+FFFF are written as they are there, because libyaml (YAML 1.1) knows no
/// surrogate pairs of `\u` escapes.
///
/// Source: YAML 1.1 as libyaml reads it; RFC 8259 for numbers.
enum ConfigurationModule {}

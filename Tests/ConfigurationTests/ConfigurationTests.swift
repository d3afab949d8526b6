import Configuration

/// Reads `text` with `read` and answers with every problem as it is printed.
func problems(_ text: String, environment: [String: String] = [:], _ read: (ConfigSection) -> Void) -> [String] {
    let reader = ConfigReader.parse(text, environment: environment)
    read(reader.root)
    return reader.problems.map(\.description)
}

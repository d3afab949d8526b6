import Configuration
import Foundation
import TokenEndpoint

/// The files under `config/`, and what the readers know about them.
enum ConfigurationFolder {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "config")

    static func text(_ name: String) throws -> String {
        try String(contentsOf: folder.appending(path: name), encoding: .utf8)
    }

    /// With what is commented out taken in: a `#` without a space behind it, and the lines that go on below it.
    static func uncommented(_ text: String) -> String {
        var lines: [String] = []
        var goesOn = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            let margin = line.prefix { $0 == " " }
            let rest = line.dropFirst(margin.count)
            let isCommentedOut = rest.first == "#" && rest.count > 1
            let space = rest.dropFirst().prefix { $0 == " " }.count
            goesOn = isCommentedOut && (space == 0 || (goesOn && space > 1))
            lines.append(goesOn ? String(margin + rest.dropFirst()) : String(line))
        }
        return lines.joined(separator: "\n")
    }

    /// The readers of everything that the example shows, commented out or not. It loads with problems: it excludes itself in places.
    static func wholeExample() throws -> ConfigReader {
        let reader = ConfigReader.parse(uncommented(try text("example.yaml")), name: "example.yaml")
        _ = RootConfig.read(reader)
        return reader
    }

    // MARK: Schema

    static func schema() throws -> String {
        let schema = ConfigSchema(
            try wholeExample().keyRecords,
            recursive: [
                "grants[].when.not": "grants[].when", "grants[].when.all[]": "grants[].when",
                "grants[].when.any[]": "grants[].when",
            ],
            descriptions: descriptions(in: uncommented(try text("example.yaml"))))
        return schema.text(title: "January Token Endpoint")
    }

    /// The comment above a key in the example is its description.
    static func descriptions(in text: String) -> [String: String] {
        var descriptions: [String: String] = [:]
        var comment: [String] = []
        var above: [(indent: Int, name: String)] = []
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            var indent = line.prefix { $0 == " " }.count
            var rest = line.dropFirst(indent)
            if rest.hasPrefix("# ") {
                comment.append(String(rest.dropFirst(2)))
                continue
            }
            defer { comment = [] }
            above.removeAll { $0.indent >= indent }
            if rest.hasPrefix("- ") {
                above.append((indent, "[]"))
                rest = rest.dropFirst(2)
                indent += 2
            }
            guard let colon = rest.firstIndex(of: ":"), rest[..<colon].allSatisfy({ $0.isLetter || $0 == "_" }) else { continue }
            above.append((indent, String(rest[..<colon])))
            let path = above.reduce("") { $1.name == "[]" ? $0 + "[]" : $0.isEmpty ? $1.name : "\($0).\($1.name)" }
            if !comment.isEmpty, descriptions[path] == nil { descriptions[path] = comment.joined(separator: " ") }
        }
        return descriptions
    }
}

/// A folder with secret files, removed with its owner.
final class SecretsFolder {
    let path: String

    static let apiKey = "sk-0123456789abcdef0123456789abcdef"
    static let sessionSecret = "session-secret-0123456789abcdef-0123456789"

    init() throws {
        path = FileManager.default.temporaryDirectory.appending(path: "january-\(UUID().uuidString)").path + "/"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try write("january_api_key", Self.apiKey)
        try write("session_secret", Self.sessionSecret)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        let created = FileManager.default.createFile(
            atPath: path + name, contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        guard created else { throw CocoaError(.fileWriteUnknown) }
        return path + name
    }
}

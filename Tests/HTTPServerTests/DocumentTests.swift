import Foundation
import HTTPServer
import Testing

private let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

private func document(_ name: String) throws -> String {
    try String(contentsOf: root.appendingPathComponent("docs/\(name)"), encoding: .utf8)
}

/// `docs/limits.md` says the defaults that are in force.
struct LimitsDocumentTests {
    @Test
    func theDefaultsOfTheServerStandInTheDocument() throws {
        let text = try document("limits.md")
        let config = ServerConfig()
        let rows: [(key: String, value: String)] = [
            ("http.request_line_bytes", "\(config.limits.requestLineBytes) bytes"),
            ("http.fields_bytes", "\(config.limits.fieldsBytes) bytes"), ("http.field_lines", "\(config.limits.fieldLines)"),
            ("http.body_bytes", "\(config.limits.bodyBytes) bytes"),
            ("http.head_seconds", "\(config.headTimeout.components.seconds) s"),
            ("http.body_idle_seconds", "\(config.bodyIdleTimeout.components.seconds) s"),
            ("http.body_seconds", "\(config.bodyTimeout.components.seconds) s"),
            ("http.idle_seconds", "\(config.idleTimeout.components.seconds) s"),
            ("http.write_idle_seconds", "\(config.writeIdleTimeout.components.seconds) s"),
        ]
        for row in rows { #expect(text.contains("| \(row.value) | `\(row.key)` |"), "\(row.key): \(row.value)") }
        #expect(config.maxConnections == 10_000 && text.contains("| 10,000 | `max_connections` |"))
        #expect(config.limits.chunkLineBytes == 256 && text.contains("| one chunk line | 256 bytes |"))
    }
}

/// The rows of `docs/limits.md` that name a key of the configuration, against the defaults of `config/schema.json`.
struct LimitsAndSchemaTests {
    /// `http.head_seconds` as `properties`, `http`, `properties`, `head_seconds`; `nil`: no such key at the root.
    private static func defaultValue(_ key: String, _ schema: [String: Any]) -> Any? {
        var node = schema
        for part in key.split(separator: ".") {
            guard let properties = node["properties"] as? [String: Any], let next = properties[String(part)] as? [String: Any]
            else {
                return nil
            }
            node = next
        }
        return node["default"]
    }

    @Test
    func everyDefaultInTheDocumentIsTheOneInForce() throws {
        let file = try Data(contentsOf: root.appendingPathComponent("config/schema.json"))
        let schema = try #require(try JSONSerialization.jsonObject(with: file) as? [String: Any])
        var checked = 0
        for line in try document("limits.md").split(separator: "\n") where line.hasPrefix("| ") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count >= 3, cells[2].hasPrefix("`") else { continue }
            let key = String(cells[2].split(separator: "`").first ?? "")
            guard let value = Self.defaultValue(key, schema) else { continue }
            if "\(value)" == "false" || (value as? NSNumber).map({ String(cString: $0.objCType) }) == "c" {
                #expect(cells[1] == "off", "\(key): false")
            } else if let number = value as? Double {
                let digits = cells[1].replacingOccurrences(of: ",", with: "").prefix { $0.isNumber || $0 == "." }
                #expect(Double(digits) == number, "\(key): \(number) in force, \(cells[1]) in the document")
            }
            checked += 1
        }
        #expect(checked >= 14, "only \(checked) rows name a key with a default")
    }
}

/// `docs/http-conformance.md` names a test for each of its clauses.
struct ConformanceDocumentTests {
    /// The functions of all test files, each with the file's text that its suite has to be in.
    private static func sources() throws -> [String] {
        let files = FileManager.default.enumerator(at: root.appendingPathComponent("Tests"), includingPropertiesForKeys: nil)
        var texts: [String] = []
        while let file = files?.nextObject() as? URL {
            if file.pathExtension == "swift" { texts.append(try String(contentsOf: file, encoding: .utf8)) }
        }
        return texts
    }

    @Test
    func everyClauseNamesATestThatExists() throws {
        let sources = try Self.sources()
        let lines = try document("http-conformance.md").split(separator: "\n").filter { $0.hasPrefix("| 91") }
        #expect(lines.count > 40)
        for line in lines {
            let named = line.split(separator: "`").filter { $0.contains("Tests/") }
            #expect(!named.isEmpty, "no test: \(line)")
            for name in named {
                let parts = name.split(separator: "/")
                let exists = sources.contains { $0.contains("struct \(parts[0]) ") && $0.contains("func \(parts[1])(") }
                #expect(exists, "no such test: \(name)")
            }
        }
    }
}

import Foundation
import Testing
@testable import TokenEndpoint

/// `docs/failures.md` promises a test for each of its lines.
struct FailureDocumentTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func document() throws -> String {
        try String(contentsOf: root.appendingPathComponent("docs/failures.md"), encoding: .utf8)
    }

    /// `Suite/test` of every test function under Tests: a function belongs to the nearest type that begins above it at the margin.
    private static func testNames() throws -> Set<String> {
        var names: Set<String> = []
        let folder = root.appendingPathComponent("Tests")
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            var suite = ""
            for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
                let words = line.split(whereSeparator: { " (:<{".contains($0) }).map(String.init)
                if !line.hasPrefix(" "), let kind = words.firstIndex(where: { ["struct", "class", "extension"].contains($0) }),
                    kind + 1 < words.count
                {
                    suite = words[kind + 1]
                } else if let function = words.firstIndex(of: "func"), function + 1 < words.count {
                    names.insert("\(suite)/\(words[function + 1])")
                }
            }
        }
        return names
    }

    @Test
    func everyLineNamesATestThatExists() throws {
        let known = try Self.testNames()
        let text = try Self.document()
        var found = 0
        for line in text.split(separator: "\n")
        where line.hasPrefix("| ") && !line.hasPrefix("| When") && !line.hasPrefix("| ---") {
            let named = line.split(separator: "`").filter { $0.contains("Tests/") }.map(String.init)
            #expect(!named.isEmpty, "no test: \(line)")
            for name in named { #expect(known.contains(name), "no such test: \(name)") }
            found += named.count
        }
        #expect(found > 30)
    }

    /// Every code that an app can get stands in the document. An unforeseen fault and an answer that nobody reads do not.
    @Test
    func everyCodeIsInTheDocument() throws {
        let text = try Self.document()
        let others: Set<ProblemCode> = [.clientGone, .internalError]
        for code in ProblemCode.allCases where !others.contains(code) {
            #expect(text.contains("`\(code.rawValue)`"), "\(code.rawValue)")
        }
    }
}

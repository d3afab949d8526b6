import Foundation
import Testing

@testable import TokenEndpoint

/// `docs/architecture.md` shows the way of a request and the targets.
struct ArchitectureDocumentTests {
    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// The rows of the table of steps, in their order.
    @Test func theTableOfStepsIsTheListOfSteps() throws {
        let lines = try Self.text("docs/architecture.md").split(separator: "\n")
        let header = try #require(lines.firstIndex { $0.hasPrefix("   | Step |") })
        let rows = lines[(header + 2)...].prefix { $0.hasPrefix("   |") }
        let names = rows.map { $0.split(separator: "|")[1].trimmingCharacters(in: .whitespaces) }
        #expect(names == MintHandler.mintSteps.map { "\($0.name)" })
    }

    /// Every target of our own code is in the graph.
    @Test func theGraphNamesEveryTarget() throws {
        let graph = try Self.text("docs/architecture.md").split(separator: "```").dropFirst().first.map(String.init) ?? ""
        let targets = try FileManager.default.contentsOfDirectory(atPath: Self.root.appendingPathComponent("Sources").path)
            // Module maps of C libraries are no targets of ours.
            .filter { !($0.hasPrefix("C") && $0.dropFirst().first?.isUppercase ?? false) }
        #expect(targets.count > 20)
        for target in targets { #expect(graph.contains(target), "\(target)") }
    }
}

import Foundation
import Primitives
import Revocations
import StrictJSON
import TestSupport
import Testing

@testable import TokenEndpoint

/// The examples of `docs/management-api.md`, with curl, in their order.
@Suite(.serialized)
struct ManagementDocumentTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let hasCurl = FileManager.default.isExecutableFile(atPath: "/usr/bin/curl")

    private static func blocks(_ text: String) -> [(language: String, text: String)] {
        var blocks: [(String, String)] = []
        var open: (language: String, lines: [String])?
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if let current = open {
                if line == "```" {
                    blocks.append((current.language, current.lines.joined(separator: "\n")))
                    open = nil
                } else {
                    open?.lines.append(String(line))
                }
            } else if line.hasPrefix("```") {
                open = (String(line.dropFirst(3)), [])
            }
        }
        return blocks
    }

    @Test(.enabled(if: hasCurl, "needs curl"))
    func everyExampleAnswersAsItSays() async throws {
        let text = try String(contentsOf: Self.root.appending(path: "docs/management-api.md"), encoding: .utf8)
        let fixture = try await EndpointFixture(
            more: EndpointFixture.managed, files: EndpointFixture.managementFiles, revocations: RevocationDouble())
        let blocks = Self.blocks(text)
        var examples = 0
        for (command, answer) in zip(blocks, blocks.dropFirst()) where command.language == "sh" && answer.language == "json" {
            let here = command.text.replacingOccurrences(of: "127.0.0.1:8788", with: "127.0.0.1:\(fixture.managementPort)")
            let output = try await onOwnThread {
                let process = Process()
                process.executableURL = URL(filePath: "/bin/sh")
                process.arguments = ["-c", here]
                process.environment = ["PATH": "/usr/bin:/bin", "MANAGEMENT_TOKEN": EndpointFixture.managementToken]
                let pipe = Pipe()
                process.standardOutput = pipe
                try process.run()
                let data = pipe.fileHandleForReading.readDataToEndOfFile()
                process.waitUntilExit()
                return Array(data)
            }
            let got = try #require(try JSONValue.parse(output).object, "\(here)")
            let said = try #require(try JSONValue.parse(answer.text).object)
            #expect(got.members.map(\.name) == said.members.map(\.name), "\(here)")
            // What differs from run to run, and what is written down here as a hash.
            for member in said.members where member.name != "end_user_id" || member.value == "user-1" {
                #expect(got[member.name] == member.value, "\(here): \(member.name)")
            }
            examples += 1
        }
        #expect(examples == 6)
    }

    @Test func everyCodeOfTheListenerIsThere() throws {
        let text = try String(contentsOf: Self.root.appending(path: "docs/management-api.md"), encoding: .utf8)
        for code in [
            ProblemCode.badRequest, .managementUnauthorized, .managementDisabled, .notFound, .contentTooLarge,
            .unsupportedMediaType,
            .rateLimited, .stateUnavailable,
        ] {
            #expect(text.contains("`\(code.rawValue)`"), "\(code.rawValue)")
        }
    }
}

import Foundation
import HTTPMessage
import Primitives
import TestSupport
import Testing

@testable import TokenEndpoint

struct MetricsPageTests {
    private func fields(_ value: String) throws -> Fields {
        var block = FieldBlock()
        try block.append(.acceptEncoding, value)
        return Fields(block)
    }

    @Test(arguments: [
        ("gzip", true), ("GZIP", true), ("deflate, gzip;q=0.5", true), ("br, gzip ; q=1", true), ("identity", false),
        ("*", false),
        ("gzip;q=0", false), ("gzip;q=0.000", false), ("gzipped", false), ("", false),
    ])
    func gzipIsSentOnlyWhenItIsAskedFor(value: String, expected: Bool) throws {
        #expect(Gzip.isAccepted(try fields(value)) == expected)
    }

    @Test(arguments: [0, 1, 1000, 100_000])
    func whatIsCompressedComesBackWhole(count: Int) async throws {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 / 7) }
        let compressed = try #require(Gzip.compress(bytes))
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("page-\(UUID().uuidString).gz")
        defer { try? FileManager.default.removeItem(at: file) }
        try Data(compressed).write(to: file)
        let plain = try await onOwnThread {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/gzip")
            process.arguments = ["-dc", file.path]
            let pipe = Pipe()
            process.standardOutput = pipe
            try process.run()
            let data = pipe.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            return [UInt8](data)
        }
        #expect(plain == bytes)
    }
}

import Configuration
import Foundation
import Glibc
import Primitives
import TestSupport
import Testing

@testable import Telemetry

/// The audit file and the writer in front of it. These tests wait for the writer's thread, so each runs on a thread of its own.
@Suite(.serialized) struct AuditFileTests {
    private final class Folder {
        let path: String
        private let isMounted: Bool

        /// - Parameter kibibytes: of a file system of its own.
        init(kibibytes: Int? = nil) throws {
            let path = FileManager.default.temporaryDirectory.appending(path: "audit-\(UUID().uuidString)").path
            self.path = path
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            isMounted = kibibytes != nil
            if let kibibytes, try Self.run("mount", ["-t", "tmpfs", "-o", "size=\(kibibytes)k", "tmpfs", path]) != 0 {
                throw CocoaError(.fileWriteUnknown)
            }
        }

        deinit {
            if isMounted { _ = try? Self.run("umount", [path]) }
            try? FileManager.default.removeItem(atPath: path)
        }

        static func run(_ program: String, _ arguments: [String]) throws -> Int32 {
            let process = Process()
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = [program] + arguments
            process.standardError = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            return process.terminationStatus
        }

        /// Root in a sandbox that lets it mount.
        static let canMount: Bool = (try? Folder(kibibytes: 64)) != nil

        func text(_ name: String) throws -> String { try String(contentsOfFile: path + "/" + name, encoding: .utf8) }
    }

    @Test func theFileIsMadeForOwnerAndGroupAndOnlyAppendedTo() async throws {
        try await onThread {
            let folder = try Folder()
            let path = folder.path + "/audit.jsonl"
            let before = umask(0o022)
            defer { umask(before) }
            for line in ["one\n", "two\n"] {
                let file = try AuditFile(path: path)
                #expect(Array(line.utf8).withUnsafeBytes { file.write($0) } == 4)
            }
            #expect(try folder.text("audit.jsonl") == "one\ntwo\n")
            let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            #expect(mode == 0o640)
        }
    }

    @Test(arguments: [("missing/audit.jsonl", "No such file or directory"), ("", "Is a directory")])
    func whatCannotBeOpenedSaysWhy(name: String, text: String) throws {
        let folder = try Folder()
        #expect(throws: AuditFile.OpenError(text: text)) { try AuditFile(path: folder.path + "/" + name) }
    }

    @Test func afterItWasMovedAwayANewFileIsBegunAtOnce() async throws {
        try await onThread {
            let folder = try Folder()
            let file = try AuditFile(path: folder.path + "/a")
            let writer = try LogWriter.start(sink: file)
            writer.append(Array("one\n".utf8))
            #expect(writer.flush(within: .seconds(10)))
            #expect(rename(folder.path + "/a", folder.path + "/a.1") == 0)
            writer.append(Array("two\n".utf8))
            #expect(writer.flush(within: .seconds(10)))
            try file.reopen()
            #expect(try folder.text("a") == "")
            try file.reopen()
            writer.append(Array("three\n".utf8))
            #expect(writer.close(within: .seconds(10)))
            #expect(try folder.text("a.1") == "one\ntwo\n")
            #expect(try folder.text("a") == "three\n")
        }
    }

    @Test func whatCannotBeOpenedAgainLeavesTheOldFileInUse() async throws {
        try await onThread {
            let folder = try Folder()
            let file = try AuditFile(path: folder.path + "/a")
            #expect(rename(folder.path + "/a", folder.path + "/b") == 0)
            try FileManager.default.createDirectory(atPath: folder.path + "/a", withIntermediateDirectories: true)
            #expect(throws: AuditFile.OpenError.self) { try file.reopen() }
            #expect(Array("x\n".utf8).withUnsafeBytes { file.write($0) } == 2)
            #expect(try folder.text("b") == "x\n")
        }
    }

    /// A disk that is full in the middle of a line: no line is lost or torn, whether the disk gets room or the file another one.
    @Test(.enabled(if: Folder.canMount, "needs to mount a tmpfs"), arguments: [false, true])
    func aFullDiskLosesAndTearsNothing(isMoved: Bool) async throws {
        try await onThread {
            let small = try Folder(kibibytes: 64)
            let other = try Folder()
            let path = small.path + "/a"
            try Data(count: 40_000).write(to: URL(filePath: small.path + "/filler"))
            let file = try AuditFile(path: path)
            var limits = LogWriter.Limits()
            limits.retryInterval = .milliseconds(1)
            let writer = try LogWriter.start(sink: file, limits: limits)
            let lines = (0..<400).map { "{\"number\":\($0),\"text\":\"" + String(repeating: "x", count: 83) + "\"}\n" }
            for line in lines { writer.append(Array(line.utf8), type: .audit) }
            while !writer.isBlocked { usleep(1000) }
            if isMoved {
                #expect(rename(path, small.path + "/a.1") == 0)
                #expect(symlink(other.path + "/a", path) == 0)
                try file.reopen()
            } else {
                try FileManager.default.removeItem(atPath: small.path + "/filler")
            }
            #expect(writer.flush(within: .seconds(10)))
            #expect(!writer.isBlocked && writer.droppedCount == 0)
            #expect(writer.close(within: .seconds(10)))
            if isMoved {
                let first = try small.text("a.1")
                let whole = first.split(separator: "\n").filter { $0.hasSuffix("}") }.map { $0 + "\n" }.joined()
                #expect(whole + (try other.text("a")) == lines.joined())
            } else {
                #expect(try small.text("a") == lines.joined())
            }
        }
    }

    @Test func whatIsKeptIsBoundedAndTheRestCounted() async throws {
        try await onThread {
            var limits = LogWriter.Limits()
            limits.retryInterval = .milliseconds(1)
            limits.lineCount = 5
            let writer = try LogWriter.start(sink: try AuditFile(path: "/dev/full"), limits: limits)
            writer.append(Array("kept\n".utf8), type: .audit)
            while !writer.isBlocked { usleep(1000) }
            for _ in 0..<8 { writer.append(Array("more\n".utf8), type: .audit) }
            #expect(writer.droppedAuditCount == 3)
            #expect(writer.close(within: .seconds(10)))
            #expect(writer.droppedAuditCount == 9)
            #expect(writer.droppedCount == 9)
        }
    }

    private func onThread(_ body: @escaping @Sendable () throws -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
        }
    }
}

/// What becomes a record, without a file.
@Suite struct AuditLogTests {
    private static func audit(
        _ config: AuditConfig = AuditConfig(), log: LogMemory = LogMemory(), format: LogFormat = .json, output: LogMemory? = nil,
        endUserID: LogEndUserID = .hash
    ) -> AuditLog {
        let time = TestTime()
        return AuditLog(
            config, log: Log(level: .error, format: format, time: time, output: log), output: output, time: time,
            hash: EndUserHash(secret: Secret("0123456789abcdef")), endUserID: endUserID)
    }

    @Test func everyEventHasItsOwnMessage() {
        let messages = AuditEvent.allCases.map(\.message.description)
        #expect(Set(messages).count == messages.count)
    }

    @Test func recordsAreNeitherFilteredNorLimited() {
        let memory = LogMemory()
        let audit = Self.audit(log: memory)
        for _ in 0..<100 { audit.write(.mintRefused, [audit.endUser("u1")]) }
        #expect(memory.lines.count == 100)
        #expect(
            memory.lines[0].hasSuffix(
                #""level":"info","type":"audit","message":"mint refused","end_user":"\#(EndUserHash(secret: Secret("0123456789abcdef")).hash("u1"))"}"#
            ))
    }

    @Test func onATerminalTheyAreTextAndInAFileAlwaysJSON() {
        let log = LogMemory()
        let file = LogMemory()
        Self.audit(log: log, format: .text).write(.keyChanged, [LogField("slot", "next")])
        #expect(log.text.hasSuffix(" info audit API key changed slot=next\n"))
        Self.audit(log: log, format: .text, output: file).write(.keyChanged, [LogField("slot", "next")])
        #expect(file.text.hasSuffix(#","message":"API key changed","slot":"next"}"# + "\n"))
    }

    @Test func theEndUserIsShownAsInTheLog() {
        #expect(Self.audit(endUserID: .plain).endUser("u1") == LogField("end_user", "u1"))
        #expect(Self.audit().endUser("u1") != LogField("end_user", "u1"))
    }

    @Test func theDefaultsRecordMintsAmongTheLog() {
        let reader = ConfigReader.parse("{}", environment: [:])
        let expected = AuditConfig()
        #expect(AuditConfig.read(reader.root.section("audit")) == expected)
        #expect(expected.file == nil && expected.mints && expected.whenBlocked == .drop)
    }

    @Test func everyKeyIsRead() {
        let reader = ConfigReader.parse("audit: { file: /a/b.jsonl, mints: false, when_blocked: refuse }", environment: [:])
        var expected = AuditConfig()
        expected.file = "/a/b.jsonl"
        expected.mints = false
        expected.whenBlocked = .refuse
        #expect(AuditConfig.read(reader.root.section("audit")) == expected)
        reader.root.finish()
        #expect(reader.problems.isEmpty)
    }

    @Test func aWrongKeyOrValueIsAProblem() {
        let reader = ConfigReader.parse("audit: { fil: x, mints: 1, when_blocked: wait }", environment: [:])
        _ = AuditConfig.read(reader.root.section("audit"))
        reader.root.finish()
        #expect(reader.problems.count == 3)
    }
}

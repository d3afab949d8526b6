import Foundation
import Testing

@Suite struct LayeringTests {
    @Test func everyArrowPointsDown() async throws {
        let package = try await onThread { try PackageDescription.read() }
        #expect(package.targets.count > 20)
        #expect(package.faults() == [])
    }

    @Test func everyTargetIsDescribedInTheFileOfItsName() async throws {
        let package = try await onThread { try PackageDescription.read() }
        for target in package.targets where target.type == "regular" && !target.isTest {
            let file = PackageDescription.root.appendingPathComponent("Sources/\(target.name)/\(target.name).swift")
            #expect(FileManager.default.fileExists(atPath: file.path), "\(file.path) is missing")
        }
    }

    @Test func productionCodeKeepsTheRules() async throws {
        let package = try await onThread { try PackageDescription.read() }
        var faults: [String] = []
        var fileCount = 0
        for target in package.targets where !target.isTest && !target.isSystemLibrary {
            let rules = SourceRules(target: target.name, dependencies: Set(target.dependencyNames))
            let folder = PackageDescription.root.appendingPathComponent("Sources/\(target.name)")
            for file in try FileManager.default.subpathsOfDirectory(atPath: folder.path).sorted() where file.hasSuffix(".swift") {
                let text = try String(contentsOf: folder.appendingPathComponent(file), encoding: .utf8)
                faults += rules.faults(file: "Sources/\(target.name)/\(file)", text: text)
                fileCount += 1
            }
        }
        #expect(fileCount >= 16)
        #expect(faults == [])
    }

    private func onThread<Result: Sendable>(_ body: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Swift.Result { try body() }) }
        }
    }
}

/// The rules themselves can fail.
@Suite struct SourceRulesTests {
    @Test(arguments: [
        ("import Primitives", []), ("import Foundation", ["a.swift:1: import Foundation in January"]),
        ("@preconcurrency import Glibc", ["a.swift:1: import Glibc in January"]),
        ("package import struct Dispatch", ["a.swift:1: import Dispatch in January"]),
        ("import Synchronization", []), ("import Telemetry", ["a.swift:1: import Telemetry in January"]),
        ("// import Foundation", []), ("let import_count = 1", []),
        ("let x = try! f()", ["a.swift:1: try!"]), ("let x = f() as! Int", ["a.swift:1: as!"]),
        ("let x = try f() // not try!", []),
        ("public struct A {}", ["a.swift:1: public"]), ("package struct A {}", []), ("case .public: 1", []),
        ("@frozen public enum B {}", ["a.swift:1: public"]),
        ("let m = Mutex(0)", ["a.swift:1: Mutex: the thread sanitizer cannot see it, use Lock"]),
        ("let text = \"https://example.com\"; let x = try! f()", ["a.swift:1: try!"]),
        ("final class A: @unchecked Sendable {}", ["a.swift:1: @unchecked Sendable without the argument why it is right"]),
        ("final class A: @unchecked Sendable {\n    // Sendable: immutable.\n}", []),
        ("// Sendable: immutable.\nfinal class A: @unchecked Sendable {}", []),
        (
            "final class A: @unchecked Sendable {\n\n\n\n\n// far away\n}",
            ["a.swift:1: @unchecked Sendable without the argument why it is right"]
        ),
        ("fatalError(\"no\")", ["a.swift:1: fatalError( without the argument why it is right"]),
        ("let descriptor = socket(1, 2, 3)", []),
    ])
    func aLineIsJudged(text: String, expected: [String]) {
        let rules = SourceRules(target: "January", dependencies: ["Primitives"])
        #expect(rules.faults(file: "a.swift", text: text + "\n") == expected)
    }

    @Test(arguments: [
        ("socket(1, 2, 3)", ["a.swift:1: socket() outside of EventLoop"]),
        ("let n = Glibc.send(fd, p, 3, 0)", ["a.swift:1: send() outside of EventLoop"]),
        ("client.send(request)", []), ("func send(_ x: Int) {", []), ("let listen = section.string(\"listen\")", []),
        ("resend(1)", []), ("let n = Glibc.write(fd, p, 3)", []),
    ])
    func aTargetThatMayReadFilesMakesNoSockets(text: String, expected: [String]) {
        let rules = SourceRules(target: "Configuration", dependencies: [])
        #expect(rules.faults(file: "a.swift", text: text + "\n") == expected)
        #expect(SourceRules(target: "EventLoop", dependencies: []).faults(file: "a.swift", text: text + "\n") == [])
    }

    /// Nothing blocks a loop: what waits is in a file that says whose thread it holds.
    @Test(arguments: [
        ("usleep(2_000)", ["usleep"]), ("Glibc.poll(&entry, 1, -1)", ["poll"]), ("getaddrinfo(n, nil, nil, &l)", ["getaddrinfo"]),
        ("let result = done.wait()", [".wait()"]), ("queue.sync { work() }", [".sync {"]),
        ("fsync(fd); sem_wait(s)", ["fsync", "sem_wait"]),
        ("budget.wait(member)", []), ("func wait() -> Int {", []), ("// usleep(1)", []), ("table.select(row)", []),
        ("func poll() {", []), ("let select = 1", []),
    ])
    func aCallThatHoldsItsThreadNeedsAFileOfItsOwn(text: String, calls: [String]) {
        let expected = calls.map { "a.swift:1: \($0) holds its thread; say whose thread that is in waitingFiles" }
        let rules = { (target: String) in SourceRules(target: target, dependencies: []) }
        #expect(rules("January").faults(file: "a.swift", text: text + "\n").filter { $0.contains("holds") } == expected)
        #expect(rules("JanuarySimulator").faults(file: "a.swift", text: text + "\n") == [])
        let other = rules("EventLoop").faults(file: "Sources/EventLoop/Resolver.swift", text: text + "\n")
        #expect(other.filter { $0.contains("holds") } == [])
    }

    @Test(arguments: [(499, []), (500, []), (501, ["a.swift: 501 lines, at most 500"])])
    func aFileIsBounded(count: Int, expected: [String]) {
        let text = String(repeating: "// x\n", count: count)
        #expect(SourceRules(target: "January", dependencies: []).faults(file: "a.swift", text: text) == expected)
    }

    @Test func arrowsAreJudged() throws {
        let json = """
            {"targets": [
              {"name": "Top", "type": "regular", "dependencies": [{"byName": ["Middle", null]}, {"byName": ["Support", null]}]},
              {"name": "Middle", "type": "regular", "dependencies": [{"byName": ["Top", null]}, {"byName": ["Gone", null]}]},
              {"name": "Low", "type": "regular", "dependencies": [{"product": ["NIO", "swift-nio", null, null]}]},
              {"name": "Support", "type": "regular", "path": "Tests/Support", "dependencies": [{"byName": ["Low", null]}]},
              {"name": "LowTests", "type": "test", "dependencies": [{"target": ["Low", null]}, {"target": ["OtherTests", null]}]},
              {"name": "OtherTests", "type": "test", "dependencies": []}
            ]}
            """
        let package = try JSONDecoder().decode(PackageDescription.self, from: Data(json.utf8))
        #expect(
            package.faults() == [
                "Top depends on Support, which is for tests", "Middle depends on Top, which is above it",
                "Middle depends on Gone, which is not in the list", "Low depends on a product, which is not in the list",
                "LowTests depends on the tests OtherTests",
            ])
    }
}

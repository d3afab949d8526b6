import Foundation

/// The targets as `Package.swift` lists them, top to bottom.
///
/// Read from `swift package dump-package`, which keeps the order (`describe` sorts), with a scratch folder of its own: the one of the
/// package is locked while its tests run.
struct PackageDescription: Decodable {
    struct Target: Decodable {
        struct Dependency: Decodable {
            let byName: [String?]?
            let target: [String?]?
            let product: [String?]?
        }
        let name: String
        let type: String
        let path: String?
        let dependencies: [Dependency]

        /// Names of targets; empty text for a product of another package, which nothing here may use.
        var dependencyNames: [String] { dependencies.map { ($0.byName ?? $0.target)?.first.flatMap { $0 } ?? "" } }
        var isTest: Bool { type == "test" || path?.hasPrefix("Tests/") == true }
        var isSystemLibrary: Bool { type == "system" }
    }

    let targets: [Target]

    enum ReadError: Error { case failed(status: Int32, output: String) }

    /// The folder of `Package.swift`, found from the place of this file.
    static let root: URL = {
        var folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        while folder.path != "/" && !FileManager.default.fileExists(atPath: folder.appendingPathComponent("Package.swift").path) {
            folder.deleteLastPathComponent()
        }
        return folder
    }()

    /// Blocks for a second or two.
    static func read() throws -> PackageDescription {
        let scratch = FileManager.default.temporaryDirectory.appendingPathComponent("layering-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: scratch) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["swift", "package", "--package-path", root.path, "--scratch-path", scratch.path, "dump-package"]
        let output = Pipe()
        let errors = Pipe()
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let json = output.fileHandleForReading.readDataToEndOfFile()
        let message = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw ReadError.failed(status: process.terminationStatus, output: String(decoding: message, as: UTF8.self))
        }
        return try JSONDecoder().decode(PackageDescription.self, from: json)
    }

    /// Every arrow that does not point down, every dependency that is not a target of this list, and every use of one target by
    /// production code that belongs to tests.
    func faults() -> [String] {
        var faults: [String] = []
        var position: [String: Int] = [:]
        for (index, target) in targets.enumerated() where position.updateValue(index, forKey: target.name) != nil {
            faults.append("\(target.name) is listed twice")
        }
        for (index, target) in targets.enumerated() {
            for name in target.dependencyNames {
                guard let other = position[name] else {
                    faults.append("\(target.name) depends on \(name.isEmpty ? "a product" : name), which is not in the list")
                    continue
                }
                if !target.isTest && other <= index { faults.append("\(target.name) depends on \(name), which is above it") }
                if !target.isTest && targets[other].isTest {
                    faults.append("\(target.name) depends on \(name), which is for tests")
                }
                if target.isTest && targets[other].type == "test" { faults.append("\(target.name) depends on the tests \(name)") }
            }
        }
        return faults
    }
}

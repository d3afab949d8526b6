import Foundation

/// The shared corpora: test cases of others, which are not part of this repository.
package enum Corpora {
    /// `JANUARY_CORPORA`, else `shared/corpora` in or beside a folder above this file. `nil` where there is none.
    package static let folder: URL? = {
        if let path = ProcessInfo.processInfo.environment["JANUARY_CORPORA"] { return URL(fileURLWithPath: path) }
        var folder = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        while folder.pathComponents.count > 1 {
            folder.deleteLastPathComponent()
            let candidate = folder.appendingPathComponent("shared/corpora")
            if FileManager.default.fileExists(atPath: candidate.path) { return candidate }
        }
        return nil
    }()

    package static let isHere = folder != nil

    /// The builder of the JWT attacks is Python with the package `cryptography`.
    package static let canBuildTokens: Bool = {
        guard let folder else { return false }
        return run(["-c", "import cryptography"]) && FileManager.default.fileExists(atPath: builder(in: folder))
    }()

    private static func builder(in folder: URL) -> String { folder.appendingPathComponent("jwt_build.py").path }

    /// Builds every attack as a token, and the keys, into `path`. Blocks: for a thread of its own.
    package static func buildTokens(issuer: String, audience: String, into path: String) throws {
        guard let folder, run([builder(in: folder), "--iss", issuer, "--aud", audience, "--out", path]) else {
            throw TimedOut(what: "the builder of the JWT corpus")
        }
    }

    private static func run(_ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3"] + arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        do { try process.run() } catch { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}

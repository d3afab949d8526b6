import Configuration
import Foundation
import JOSE
import Primitives
import Sessions
import StrictJSON

/// Reads `sessions:` as the server does.
struct ReadSessions {
    let config: SessionsConfig
    let problems: [String]
    let warnings: [String]
    let printed: String

    /// - Parameter verifiers: YAML under `sessions.verifiers`, each verifier as one flow mapping.
    init(verifiers: [String], endUserClaim: String? = nil, folder: String = "", environment: [String: String] = [:]) {
        let lines = verifiers.map { "    - \($0)" }.joined(separator: "\n")
        let text = verifiers.isEmpty ? "" : "sessions:\n  verifiers:\n\(lines)\n"
        self.init(text: text, endUserClaim: endUserClaim, folder: folder, environment: environment)
    }

    init(text: String, endUserClaim: String? = nil, folder: String = "", environment: [String: String] = [:]) {
        let reader = ConfigReader.parse(text, name: "c.yaml", folder: folder, environment: environment)
        config = SessionsConfig.read(reader.root.section("sessions"), endUserClaim: endUserClaim)
        reader.root.finish()
        problems = reader.problems.map(\.description)
        warnings = reader.warnings.map(\.description)
        printed = reader.printed()
    }
}

/// A folder that goes away with its test.
final class TestFolder {
    let path: String

    init() throws {
        path = FileManager.default.temporaryDirectory.appendingPathComponent("sessions-\(UUID().uuidString)").path + "/"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func write(_ name: String, _ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: path + name))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path + name)
    }
}

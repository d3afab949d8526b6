import Foundation

/// Certificates made by the `openssl` command line, once per process: an authority and what it has issued.
package final class TestCertificates: Sendable {
    package struct Identity: Sendable {
        /// PEM.
        package let certificate: [UInt8]
        /// PEM, PKCS#8.
        package let privateKey: [UInt8]
    }

    package struct Failure: Error { package let what: String }

    /// The authority's certificate, PEM.
    package let authority: [UInt8]
    private let folder: String

    /// Made at first use; the folder goes with the process's temporary files.
    package static let shared = Result { try TestCertificates() }

    private init() throws {
        let folder = NSTemporaryDirectory() + "/january-certificates-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        self.folder = folder
        try Self.openssl(
            ["req", "-x509"] + Self.newKey("ca.key")
                + [
                    "-out", "ca.pem", "-days", "30", "-subj", "/CN=Test Authority", "-addext",
                    "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                ], in: folder)
        authority = try Self.read("ca.pem", folder)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// Issued by the authority.
    /// - Parameters:
    ///   - alternativeNames: as OpenSSL writes them, such as `DNS:localhost,IP:127.0.0.1`; empty for none.
    ///   - days: until it expires, negative for a certificate that has.
    package func issue(_ alternativeNames: String, commonName: String = "test", days: Int = 10) throws -> Identity {
        let name = UUID().uuidString
        try Self.openssl(
            ["req", "-new"] + Self.newKey("\(name).key") + ["-out", "\(name).csr", "-subj", "/CN=\(commonName)"], in: folder)
        var extensions = "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n"
        if !alternativeNames.isEmpty { extensions += "subjectAltName=\(alternativeNames)\n" }
        try extensions.write(toFile: "\(folder)/\(name).ext", atomically: false, encoding: .utf8)
        let serial = UInt64.random(in: 1...UInt64(Int64.max))
        try Self.openssl(
            [
                "x509", "-req", "-in", "\(name).csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial", "\(serial)", "-days",
                "\(days)", "-extfile", "\(name).ext", "-out", "\(name).pem",
            ], in: folder)
        return try identity(name)
    }

    package func selfSigned(_ alternativeNames: String) throws -> Identity {
        let name = UUID().uuidString
        try Self.openssl(
            ["req", "-x509"] + Self.newKey("\(name).key")
                + ["-out", "\(name).pem", "-days", "10", "-subj", "/CN=self", "-addext", "subjectAltName=\(alternativeNames)"],
            in: folder)
        return try identity(name)
    }

    private func identity(_ name: String) throws -> Identity {
        Identity(certificate: try Self.read("\(name).pem", folder), privateKey: try Self.read("\(name).key", folder))
    }

    private static func newKey(_ file: String) -> [String] {
        ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", file]
    }

    private static func read(_ file: String, _ folder: String) throws -> [UInt8] {
        [UInt8](try Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(file)")))
    }

    private static func openssl(_ arguments: [String], in folder: String) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(what: "openssl \(arguments.joined(separator: " "))") }
    }
}

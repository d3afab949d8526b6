import EventLoop
import JOSE
import Primitives

/// The command line of `january-simulator`.
package struct SimulatorCommand: Sendable, Equatable {
    package enum Action: Sendable, Equatable {
        case serve
        /// Asks the simulator that runs at `listen` for a session of this subject.
        case printSession(subject: String)
        case help
    }

    package struct UsageError: Error, Equatable {
        package let message: String
        package init(message: String) { self.message = message }
    }

    package static let defaultAddress = SocketAddress.ip(.v4(0x7F00_0001), port: 8790)

    package var action = Action.serve
    package var listen = defaultAddress
    package var apiKey = SimulatorSettings.developmentKey
    package var issuer: String?
    package var audience: [String] = []
    package var algorithm: JWSAlgorithm?
    package var portFile: String?
    package var hmacSecretFile: String?
    package var certificateFile: String?
    package var keyFile: String?
    package var authorityFile: String?

    package init() {}

    package static let usage = """
        january-simulator: January's API side and an identity provider, for development and tests.

          --listen ADDRESS:PORT     where to listen, port 0 for a free one (127.0.0.1:8790)
          --api-key KEY             the account's API key (\(SimulatorSettings.developmentKey))
          --issuer URL              issuer of its sessions (http://ADDRESS:PORT/idp)
          --hmac-secret-file FILE   secret for sessions signed with HS256, HS384, HS512
          --port-file FILE          writes the port to FILE once it listens
          --certificate-file FILE   serves TLS with this PEM chain
          --key-file FILE           and this PEM key

          --print-session SUB       prints a session of SUB from the simulator that runs at --listen
          --audience AUDIENCE       its aud; may be repeated
          --alg ALGORITHM           signed with this (ES256)
          --ca-file FILE            asks over TLS, and trusts this PEM certificate

        """

    package static func parse(_ arguments: [String]) throws(UsageError) -> SimulatorCommand {
        var command = SimulatorCommand()
        var rest = arguments[...]
        while let flag = rest.popFirst() {
            if flag == "--help" || flag == "help" || flag == "-h" {
                command.action = .help
                continue
            }
            // `--flag=value` and `--flag value`.
            let parts = flag.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = parts.first.map(String.init) ?? flag
            guard flags.contains(name) else { throw UsageError(message: "unknown flag \(name)") }
            guard let value = parts.count == 2 ? String(parts[1]) : rest.popFirst() else {
                throw UsageError(message: "\(name) needs a value")
            }
            try command.set(name, value)
        }
        if (command.certificateFile == nil) != (command.keyFile == nil) {
            throw UsageError(message: "--certificate-file and --key-file come together")
        }
        return command
    }

    private static let flags: Set<String> = [
        "--listen", "--api-key", "--issuer", "--hmac-secret-file", "--port-file", "--certificate-file", "--key-file",
        "--print-session", "--audience", "--alg", "--ca-file",
    ]

    private mutating func set(_ name: String, _ value: String) throws(UsageError) {
        switch name {
        case "--listen":
            guard let address = SocketAddress(value), address.port != nil else {
                throw UsageError(message: "--listen must be ADDRESS:PORT, the address in digits")
            }
            listen = address
        case "--api-key":
            guard !value.isEmpty, value.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
                throw UsageError(message: "--api-key must be visible ASCII without spaces")
            }
            apiKey = value
        case "--alg":
            guard let algorithm = JWSAlgorithm(rawValue: value) else {
                throw UsageError(message: "--alg must be one of \(JWSAlgorithm.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            self.algorithm = algorithm
        case "--issuer": issuer = value
        case "--hmac-secret-file": hmacSecretFile = value
        case "--port-file": portFile = value
        case "--certificate-file": certificateFile = value
        case "--key-file": keyFile = value
        case "--ca-file": authorityFile = value
        case "--print-session": action = .printSession(subject: value)
        case "--audience": audience.append(value)
        default: break
        }
    }
}

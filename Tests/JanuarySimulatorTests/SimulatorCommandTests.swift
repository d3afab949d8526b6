import EventLoop
import JanuarySimulator
import Primitives
import StrictJSON
import TLS
import TestSupport
import Testing

@Suite(.serialized) struct SimulatorCommandTests {
    @Test func withoutFlagsItServesOnItsUsualPortWithTheDevelopmentKey() throws {
        let command = try SimulatorCommand.parse([])
        #expect(command == SimulatorCommand())
        #expect(command.listen.description == "127.0.0.1:8790")
    }

    @Test func everyFlagIsRead() throws {
        var expected = SimulatorCommand()
        expected.listen = try #require(SocketAddress("[::1]:0"))
        expected.apiKey = "sk-x"
        expected.issuer = "https://idp.example"
        expected.portFile = "/p"
        expected.hmacSecretFile = "/s"
        expected.certificateFile = "/c"
        expected.keyFile = "/k"
        expected.authorityFile = "/a"
        expected.action = .printSession(subject: "a=b")
        expected.audience = ["x", "y"]
        expected.algorithm = .rs256
        let command = try SimulatorCommand.parse([
            "--listen", "[::1]:0", "--api-key=sk-x", "--issuer", "https://idp.example", "--port-file", "/p", "--hmac-secret-file",
            "/s", "--certificate-file=/c", "--key-file", "/k", "--print-session=a=b", "--audience", "x", "--audience", "y",
            "--alg", "RS256", "--ca-file", "/a",
        ])
        #expect(command == expected)
        #expect(try SimulatorCommand.parse(["--help"]).action == .help)
    }

    @Test(arguments: [
        (["--port", "1"], "unknown flag --port"), (["serve"], "unknown flag serve"), (["--listen"], "--listen needs a value"),
        (["--listen", "localhost:1"], "--listen must be ADDRESS:PORT, the address in digits"),
        (["--listen", "unix:/x"], "--listen must be ADDRESS:PORT, the address in digits"),
        (["--api-key", "a b"], "--api-key must be visible ASCII without spaces"),
        (["--key-file", "k"], "--certificate-file and --key-file come together"),
    ])
    func aWrongCommandLineSaysWhatIsWrong(arguments: [String], message: String) {
        #expect(throws: SimulatorCommand.UsageError(message: message)) { try SimulatorCommand.parse(arguments) }
    }

    @Test func anotherProcessCanAskForASession() async throws {
        try await Scenario.run { scenario throws in
            let answer = try #require(
                ControlClient.post("/control/session", ["sub": "user-1"], to: scenario.simulator.address))
            #expect(answer.status == 201)
            #expect(answer.object["token"]?.string?.split(separator: ".").count == 3)
        }
    }

    @Test func theSimulatorSpeaksTLSWithAGivenCertificate() async throws {
        let certificates = try TestCertificates.shared.get()
        let identity = try certificates.issue("IP:127.0.0.1")
        let server = try TLSServerContext(certificates: identity.certificate, privateKey: Secret(identity.privateKey))
        let trusting = try TLSClientContext(trust: .authorities(pem: certificates.authority))
        let other = try TLSClientContext(trust: .system)
        try await Scenario.run({ $0.tls = server }) { scenario throws in
            let address = scenario.simulator.address
            let answer = try #require(ControlClient.send("GET", "/control/health", nil, to: address, tls: trusting))
            #expect(answer.object["origin"]?.string == "https://\(address)")
            #expect(ControlClient.send("GET", "/control/health", nil, to: address, tls: other) == nil)
            #expect(ControlClient.send("GET", "/control/health", nil, to: address) == nil)
        }
    }
}

import EventLoop
import Glibc
import Primitives
import TestSupport
import Testing

@testable import TLS

/// Both ends of one TLS connection over a socket pair, driven by hand: no loop, no clock.
private final class Pair {
    let client: TLSStream
    let server: TLSStream
    let clientSocket: FileDescriptor
    let serverSocket: FileDescriptor

    init(_ clientContext: TLSClientContext, _ serverContext: TLSServerContext, host: String = "localhost", port: Int = 443) throws
    {
        var ends: [Int32] = [0, 0]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0
        else { throw SystemError("socketpair") }
        clientSocket = FileDescriptor(adopting: ends[0])
        serverSocket = FileDescriptor(adopting: ends[1])
        client = try TLSStream(client: clientContext, descriptor: ends[0], host: host, port: port)
        server = try TLSStream(server: serverContext, descriptor: ends[1])
    }

    /// Both sides' last steps.
    func handshake() -> (client: HandshakeStep, server: HandshakeStep) {
        var steps = (client: HandshakeStep.wait, server: HandshakeStep.wait)
        for _ in 0..<20 {
            if steps.client == .wait { steps.client = client.handshake() }
            if steps.server == .wait { steps.server = server.handshake() }
            if steps.client != .wait, steps.server != .wait { break }
        }
        return steps
    }

    func send(_ bytes: [UInt8], from sender: TLSStream, to receiver: TLSStream) -> [UInt8] {
        var sent = 0
        var received: [UInt8] = []
        while received.count < bytes.count {
            var moved = false
            if sent < bytes.count, case .bytes(let count) = bytes[sent...].withUnsafeBytes({ sender.write($0) }) {
                sent += count
                moved = true
            }
            let piece = read(receiver)
            if case .bytes = piece.result { moved = true }
            received += piece.bytes
            if !moved { break }
        }
        return received
    }

    func read(_ stream: TLSStream, capacity: Int = 65536) -> (result: IOResult, bytes: [UInt8]) {
        var buffer = [UInt8](repeating: 0, count: capacity)
        let result = buffer.withUnsafeMutableBytes { stream.read(into: $0) }
        guard case .bytes(let count) = result else { return (result, []) }
        return (result, Array(buffer[..<count]))
    }
}

@Suite struct TLSTests {
    private static func server(
        _ identity: TestCertificates.Identity, _ minimum: TLSVersion = .tls12, _ maximum: TLSVersion = .tls13
    ) throws -> TLSServerContext {
        try TLSServerContext(
            certificates: identity.certificate, privateKey: Secret(identity.privateKey), minimumVersion: minimum,
            maximumVersion: maximum)
    }

    private static func client(maxSessions: Int = 64) throws -> TLSClientContext {
        try TLSClientContext(trust: .authorities(pem: TestCertificates.shared.get().authority), maxSessions: maxSessions)
    }

    struct Peer: Sendable, CustomTestStringConvertible {
        enum Certificate { case issued(String, commonName: String, days: Int), selfSigned(String) }
        let certificate: Certificate
        let host: String
        let expected: TLSError?
        var testDescription: String { "\(host) \(expected.map { "\($0.reason)" } ?? "accepted")" }

        init(_ names: String, _ host: String, _ expected: TLSError?, commonName: String = "test", days: Int = 10) {
            certificate = .issued(names, commonName: commonName, days: days)
            self.host = host
            self.expected = expected
        }
        init(selfSigned names: String, _ host: String, _ expected: TLSError?) {
            certificate = .selfSigned(names)
            self.host = host
            self.expected = expected
        }
    }

    /// RFC 9525 section 6: which names a certificate is good for; and the chain.
    @Test(arguments: [
        Peer("DNS:localhost", "localhost", nil),
        Peer("DNS:api.example.com,DNS:localhost", "localhost", nil),
        Peer("DNS:*.example.com", "api.example.com", nil),
        Peer("IP:127.0.0.1", "127.0.0.1", nil),
        Peer("IP:::1", "::1", nil),
        Peer("DNS:example.com", "localhost", .hostNameMismatch),
        Peer("DNS:*.example.com", "a.b.example.com", .hostNameMismatch),
        Peer("DNS:*.example.com", "example.com", .hostNameMismatch),
        Peer("DNS:a*.example.com", "api.example.com", .hostNameMismatch),
        Peer("DNS:localhost.example.com", "localhost", .hostNameMismatch),
        Peer("DNS:localhost", "127.0.0.1", .hostNameMismatch),
        Peer("DNS:127.0.0.1", "127.0.0.1", .hostNameMismatch),
        Peer("IP:127.0.0.2", "127.0.0.1", .hostNameMismatch),
        Peer("", "localhost", .hostNameMismatch, commonName: "localhost"),
        Peer("DNS:localhost", "localhost", .certificateExpired, days: -1),
        Peer(selfSigned: "DNS:localhost", "localhost", .selfSigned),
    ])
    func aCertificateIsGoodForItsNamesOnly(peer: Peer) throws {
        let certificates = try TestCertificates.shared.get()
        let identity =
            switch peer.certificate {
            case .issued(let names, let commonName, let days): try certificates.issue(names, commonName: commonName, days: days)
            case .selfSigned(let names): try certificates.selfSigned(names)
            }
        let pair = try Pair(Self.client(), Self.server(identity), host: peer.host)
        let step = pair.handshake().client
        #expect(pair.client.error == peer.expected)
        #expect(step == peer.expected.map { .failed(.transport($0.reason)) } ?? .done)
    }

    @Test func anAuthorityThatIsNotTrustedIsUnknown() throws {
        let certificates = try TestCertificates.shared.get()
        let other = try certificates.selfSigned("DNS:other")
        let context = try TLSClientContext(trust: .authorities(pem: other.certificate))
        let pair = try Pair(context, Self.server(certificates.issue("DNS:localhost")))
        #expect(pair.handshake().client == .failed(.transport("unknown_issuer")))
    }

    @Test func theSystemStoreDoesNotKnowOurAuthority() throws {
        let pair = try Pair(TLSClientContext(trust: .system), Self.server(TestCertificates.shared.get().issue("DNS:localhost")))
        #expect(pair.handshake().client == .failed(.transport("unknown_issuer")))
    }

    @Test(arguments: [TLSVersion.tls10, .tls11]) func versionsBelowTwelveAreRefused(version: TLSVersion) throws {
        let pair = try Pair(Self.client(), Self.server(TestCertificates.shared.get().issue("DNS:localhost"), version, version))
        #expect(pair.handshake().client == .failed(.transport("protocol_version")))
    }

    @Test(arguments: [TLSVersion.tls12, .tls13]) func bytesPassBothWays(version: TLSVersion) throws {
        let pair = try Pair(Self.client(), Self.server(TestCertificates.shared.get().issue("DNS:localhost"), version, version))
        #expect(pair.handshake() == (.done, .done))
        #expect(pair.client.version == version)
        let bytes = (0..<1_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        #expect(pair.send(bytes, from: pair.client, to: pair.server) == bytes)
        #expect(pair.send(bytes, from: pair.server, to: pair.client) == bytes)
        #expect(pair.read(pair.client).result == .wouldBlock)
    }

    /// Nothing of what the kernel has is left behind by one read that is not full: the loop's events are edge-triggered.
    @Test func aShortReadHasTakenEveryRecord() throws {
        let pair = try Pair(Self.client(), Self.server(TestCertificates.shared.get().issue("DNS:localhost")))
        #expect(pair.handshake() == (.done, .done))
        for byte in UInt8(0)..<10 { #expect([byte].withUnsafeBytes { pair.server.write($0) } == .bytes(1)) }
        #expect(pair.read(pair.client).bytes == Array(0..<10))
        for byte in UInt8(0)..<10 { #expect([byte].withUnsafeBytes { pair.server.write($0) } == .bytes(1)) }
        #expect(pair.read(pair.client, capacity: 3).bytes == [0, 1, 2])
    }

    @Test(arguments: [TLSVersion.tls12, .tls13]) func theSecondConnectionResumesTheFirst(version: TLSVersion) throws {
        let (client, server) = (
            try Self.client(), try Self.server(TestCertificates.shared.get().issue("DNS:localhost,DNS:other"), version, version)
        )
        for round in 0..<4 {
            let pair = try Pair(client, server)
            #expect(pair.handshake() == (.done, .done))
            #expect(pair.client.isResumed == (round > 0), "round \(round)")
            // TLS 1.3 sends its tickets behind the handshake; they come with the first read.
            #expect(pair.send([1, 2, 3], from: pair.server, to: pair.client) == [1, 2, 3])
            if round == 1 { pair.client.shutdown() }
        }
        for (host, port) in [("other", 443), ("localhost", 8443)] {
            let pair = try Pair(client, server, host: host, port: port)
            #expect(pair.handshake() == (.done, .done))
            #expect(!pair.client.isResumed, "sessions are kept per host and port")
        }
    }

    @Test func keptSessionsAreBounded() throws {
        let (client, server) = (
            try Self.client(maxSessions: 2), try Self.server(TestCertificates.shared.get().issue("DNS:localhost"))
        )
        for port in [1, 2, 3, 1] {
            let pair = try Pair(client, server, port: port)
            #expect(pair.handshake() == (.done, .done))
            #expect(!pair.client.isResumed)
            #expect(pair.send([1], from: pair.server, to: pair.client) == [1])
        }
        #expect(client.sessionCount == 2)
    }

    @Test func closeNotifyIsAnEndAndASuddenEndIsNot() throws {
        let identity = try TestCertificates.shared.get().issue("DNS:localhost")
        for isPolite in [true, false] {
            let pair = try Pair(Self.client(), Self.server(identity))
            #expect(pair.handshake() == (.done, .done))
            #expect([7].withUnsafeBytes { pair.server.write($0) } == .bytes(1 * MemoryLayout<Int>.size))
            if isPolite { pair.server.shutdown() }
            Glibc.shutdown(pair.serverSocket.raw, Int32(SHUT_RDWR))
            #expect(pair.read(pair.client).bytes.count == MemoryLayout<Int>.size)
            #expect(pair.read(pair.client).result == (isPolite ? .end : .failed(.reset)))
            #expect(pair.read(pair.client).result == (isPolite ? .end : .failed(.reset)), "it stays so")
        }
    }

    @Test(arguments: [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "not_tls"), ("SSH-2.0-x\r\n", "not_tls"), ("", "truncated"),
        ("\u{15}\u{3}\u{3}\u{0}\u{2}\u{2}\u{28}", "handshake_failed"),
    ])
    func aPeerThatSpeaksSomethingElse(bytes: String, reason: String) throws {
        let pair = try Pair(Self.client(), Self.server(TestCertificates.shared.get().issue("DNS:localhost")))
        #expect(pair.client.handshake() == .wait)
        let raw = Array(bytes.utf8)
        #expect(Glibc.send(pair.serverSocket.raw, raw, raw.count, Int32(MSG_NOSIGNAL)) == raw.count)
        Glibc.shutdown(pair.serverSocket.raw, Int32(SHUT_WR))
        guard case .failed(.transport(let found)) = pair.client.handshake() else {
            Issue.record("the handshake did not fail")
            return
        }
        #expect(found.description == reason)
    }

    /// A byte changed in a record behind the handshake is noticed (RFC 8446 section 5.2), and other connections are not touched by it.
    @Test func aChangedRecordBreaksOnlyItsConnection() throws {
        let (client, server) = (try Self.client(), try Self.server(TestCertificates.shared.get().issue("DNS:localhost")))
        let (broken, healthy) = (try Pair(client, server), try Pair(client, server))
        #expect(broken.handshake() == (.done, .done))
        #expect(healthy.handshake() == (.done, .done))
        let record: [UInt8] = [23, 3, 3, 0, 32] + [UInt8](repeating: 9, count: 32)
        #expect(Glibc.send(broken.serverSocket.raw, record, record.count, Int32(MSG_NOSIGNAL)) == record.count)
        #expect(broken.read(broken.client).result == .failed(.transport("protocol_violation")))
        #expect(broken.client.error == .protocolViolation)
        #expect(healthy.read(healthy.client).result == .wouldBlock)
        #expect(healthy.send([1], from: healthy.server, to: healthy.client) == [1])
    }

    @Test func sentBytesCountWhatTheKernelTook() throws {
        let pair = try Pair(Self.client(), Self.server(TestCertificates.shared.get().issue("DNS:localhost")))
        #expect(pair.handshake() == (.done, .done))
        let before = pair.client.sentBytes
        #expect(before > 0)
        #expect(pair.send([1], from: pair.client, to: pair.server) == [1])
        #expect(pair.client.sentBytes > before)
    }

    @Test func contextsNameWhatIsWrong() throws {
        let certificates = try TestCertificates.shared.get()
        let (one, two) = (try certificates.issue("DNS:localhost"), try certificates.issue("DNS:localhost"))
        func server(_ certificate: [UInt8], _ key: [UInt8]) -> TLSError? {
            do throws(TLSError) {
                _ = try TLSServerContext(certificates: certificate, privateKey: Secret(key))
                return nil
            } catch {
                return error
            }
        }
        func client(_ pem: [UInt8]) -> TLSError? {
            do throws(TLSError) {
                _ = try TLSClientContext(trust: .authorities(pem: pem))
                return nil
            } catch {
                return error
            }
        }
        let broken = Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)
        #expect(server(one.certificate, one.privateKey) == nil)
        #expect(server(one.certificate + certificates.authority, one.privateKey) == nil)
        #expect(server(one.certificate, two.privateKey) == .keyMismatch)
        #expect(server([], one.privateKey) == .badCertificate)
        #expect(server(one.certificate + broken, one.privateKey) == .badCertificate)
        #expect(server(one.certificate, one.certificate) == .badPrivateKey)
        #expect(client(certificates.authority + one.certificate) == nil)
        #expect(client([]) == .badCertificate)
        #expect(client(Array("no certificate".utf8)) == .badCertificate)
        #expect(client(broken) == .badCertificate)
    }

    /// A certificate file that was not written to its end, or was damaged, is named as such and never half taken.
    @Test func certificatesCutOrChangedAreRefusedOrWhole() throws {
        let pem = try TestCertificates.shared.get().authority
        func outcome(_ bytes: [UInt8]) -> TLSError? {
            do throws(TLSError) {
                _ = try TLSClientContext(trust: .authorities(pem: bytes))
                return nil
            } catch {
                return error
            }
        }
        let end = pem.count - (pem.last == 0x0A ? 1 : 0)
        for cut in 0..<end { #expect(outcome(Array(pem[..<cut])) == .badCertificate, "cut at \(cut)") }
        #expect(outcome(Array(pem[..<end])) == nil)
        // A second one that is cut spoils the first, too.
        for cut in stride(from: 28, to: end, by: 7) {
            #expect(outcome(pem + pem[..<cut]) == .badCertificate, "second cut at \(cut)")
        }
        let seed: UInt64 = 5_280
        var random = SeededRandom(seed: seed)
        for round in 0..<1_000 {
            var bytes = pem
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            // Bytes of a signature can change without anybody noticing here: what is checked is that nothing crashes.
            #expect([nil, .badCertificate].contains(outcome(bytes)), "seed \(seed), round \(round)")
        }
    }

    @Test(arguments: ["", "a\u{0}b"]) func aHostThatIsNoNameIsRefused(host: String) throws {
        let server = try Self.server(TestCertificates.shared.get().issue("DNS:localhost"))
        #expect(throws: TLSError.badHostName) { try Pair(Self.client(), server, host: host) }
    }
}

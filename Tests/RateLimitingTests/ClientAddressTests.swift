import EventLoop
import HTTPMessage
import TestSupport
import Testing

@testable import RateLimiting

/// Field lines as a request would carry them.
func fields(_ lines: [(String, String)]) -> Fields? {
    var block = FieldBlock()
    for (name, value) in lines {
        guard let name = FieldName(parsing: name) else { return nil }
        do { try block.append(name, value) } catch { return nil }
    }
    return Fields(block)
}

func peer(_ text: String) -> SocketAddress? {
    if text.hasPrefix("unix:") { return .unix(path: "") }
    return IPAddress(text).map { .ip($0, port: 4711) }
}

func proxies(_ ranges: [String], _ field: ProxyField = .xForwardedFor) -> TrustedProxies {
    TrustedProxies(
        ranges: ranges.compactMap { AddressRange($0) }, trustsUnixSockets: ranges.contains("unix:"), field: field)
}

@Suite struct ClientAddressTests {
    struct Row: Sendable, CustomTestStringConvertible {
        var peer: String
        var trusted: [String]
        var field: ProxyField
        var lines: [(String, String)]
        /// `nil`: a Unix socket's end.
        var address: String?
        var isExempt = false
        var isUnconfigured = false
        var testDescription: String { "\(peer) \(trusted) \(lines.map { "\($0.0): \($0.1)" })" }
    }

    private static let loopback = ["127.0.0.1"]
    private static func forwardedFor(_ value: String, _ address: String, isExempt: Bool = false) -> Row {
        Row(
            peer: "127.0.0.1", trusted: loopback + ["10.0.0.0/8", "2001:db8:ffff::/48"], field: .xForwardedFor,
            lines: [("X-Forwarded-For", value)], address: address, isExempt: isExempt)
    }
    private static func forwarded(_ value: String, _ address: String, isExempt: Bool = false) -> Row {
        Row(
            peer: "127.0.0.1", trusted: loopback + ["10.0.0.0/8", "2001:db8:ffff::/48"], field: .forwarded,
            lines: [("Forwarded", value)], address: address, isExempt: isExempt)
    }
    private static func untrusted(_ peer: String, _ address: String?, sends: Bool, isExempt: Bool, isUnconfigured: Bool) -> Row {
        Row(
            peer: peer, trusted: ["192.0.2.1"], field: .xForwardedFor, lines: sends ? [("X-Forwarded-For", "203.0.113.7")] : [],
            address: address, isExempt: isExempt, isUnconfigured: isUnconfigured)
    }

    static let rows: [Row] = [
        // Ports, brackets, zones, mapped addresses.
        forwardedFor("203.0.113.7:80", "203.0.113.7"), forwardedFor("203.0.113.7:", "127.0.0.1", isExempt: true),
        forwardedFor("203.0.113.7:65536", "127.0.0.1", isExempt: true), forwardedFor("203.0.113.7:_hidden", "203.0.113.7"),
        forwardedFor("[2001:db8::7]:65535", "2001:db8::7"), forwardedFor("[2001:db8::7", "127.0.0.1", isExempt: true),
        forwardedFor("[2001:db8::7]x", "127.0.0.1", isExempt: true), forwardedFor("[203.0.113.7]", "127.0.0.1", isExempt: true),
        forwardedFor("fe80::1%eth0", "fe80::1"), forwardedFor("[fe80::1%25eth0]:80", "fe80::1"),
        forwardedFor("fe80::1%", "127.0.0.1", isExempt: true), forwardedFor("::ffff:203.0.113.7", "203.0.113.7"),
        forwardedFor("::ffff:cb00:7107", "203.0.113.7"), forwardedFor("[::FFFF:203.0.113.7]:1", "203.0.113.7"),
        forwardedFor("\t203.0.113.7 ", "203.0.113.7"), forwardedFor(",,,", "127.0.0.1", isExempt: true),
        forwardedFor("203.0.113.7, unknown", "127.0.0.1", isExempt: true), forwardedFor("203.0.113.7, _x, 10.1.1.1", "10.1.1.1"),
        forwardedFor("127.0.0.1", "127.0.0.1"), forwardedFor("198.51.100.1, 2001:db8:ffff::1", "198.51.100.1"),
        // A trusted mapped peer is the IPv4 address.
        Row(
            peer: "::ffff:10.1.1.1", trusted: ["10.0.0.0/8"], field: .xForwardedFor,
            lines: [("X-Forwarded-For", "203.0.113.7")], address: "203.0.113.7"),
        Row(
            peer: "::ffff:198.51.100.9", trusted: ["10.0.0.0/8"], field: .xForwardedFor, lines: [], address: "198.51.100.9"),
        // Only the one field is read.
        Row(
            peer: "127.0.0.2", trusted: ["127.0.0.2"], field: .xForwardedFor, lines: [("Forwarded", "for=203.0.113.7")],
            address: "127.0.0.2"),
        Row(
            peer: "127.0.0.2", trusted: ["127.0.0.2"], field: .forwarded, lines: [("X-Forwarded-For", "203.0.113.7")],
            address: "127.0.0.2"),
        Row(
            peer: "127.0.0.2", trusted: ["127.0.0.2"], field: .forwarded,
            lines: [("X-Forwarded-For", "203.0.113.7"), ("Forwarded", "for=198.51.100.1")], address: "198.51.100.1"),
        // RFC 7239.
        forwarded("For=203.0.113.7", "203.0.113.7"), forwarded("for=203.0.113.7 ; proto=https", "203.0.113.7"),
        forwarded("for=203.0.113.7;by=_x, for=unknown", "127.0.0.1", isExempt: true),
        forwarded(#"for="203.0.113.7:_obf""#, "203.0.113.7"), forwarded("nonsense, for=203.0.113.7", "203.0.113.7"),
        forwarded("for=203.0.113.7, nonsense", "127.0.0.1", isExempt: true),
        forwarded(#"x="a,b;for=198.51.100.1";for=203.0.113.7"#, "203.0.113.7"),
        forwarded(#"x="a\"b, for=198.51.100.1", for=203.0.113.7"#, "203.0.113.7"),
        forwarded(#"for="203.0.113.7\"""#, "127.0.0.1", isExempt: true),
        // What no proxy writes came from the client: it stays limited, with all who send the like.
        forwarded(#"for="198.51.100.1, for=203.0.113.7"#, "127.0.0.1"), forwarded(#"a"b=c, for=203.0.113.7"#, "127.0.0.1"),
        forwarded(#"for="198.51.100.1"x, for=203.0.113.7"#, "127.0.0.1"), forwarded(#"for=1"2"#, "127.0.0.1"),
        forwarded(#"for="198.51.100.1\"#, "127.0.0.1"),
        // Who stands for one caller.
        untrusted("203.0.113.9", "203.0.113.9", sends: true, isExempt: false, isUnconfigured: false),
        untrusted("127.0.0.1", "127.0.0.1", sends: false, isExempt: true, isUnconfigured: false),
        untrusted("127.0.0.1", "127.0.0.1", sends: true, isExempt: true, isUnconfigured: true),
        untrusted("::ffff:127.0.0.1", "127.0.0.1", sends: false, isExempt: true, isUnconfigured: false),
        untrusted("127.0.0.2", "127.0.0.2", sends: true, isExempt: false, isUnconfigured: false),
        untrusted("127.255.255.254", "127.255.255.254", sends: false, isExempt: false, isUnconfigured: false),
        untrusted("::1", "::1", sends: false, isExempt: true, isUnconfigured: false),
        untrusted("::1", "::1", sends: true, isExempt: true, isUnconfigured: true),
        untrusted("::2", "::2", sends: true, isExempt: false, isUnconfigured: false),
        untrusted("unix:", nil, sends: false, isExempt: true, isUnconfigured: false),
        untrusted("unix:", nil, sends: true, isExempt: true, isUnconfigured: true),
        Row(
            peer: "unix:", trusted: ["unix:"], field: .xForwardedFor, lines: [("X-Forwarded-For", "203.0.113.7")],
            address: "203.0.113.7"),
        Row(
            peer: "unix:", trusted: ["unix:"], field: .xForwardedFor, lines: [], address: nil, isExempt: true),
    ]

    @Test(arguments: rows) func theClientIsTheRightmostHopNobodyTrusts(row: Row) throws {
        let found = ClientAddress.find(
            peer: try #require(peer(row.peer)), fields: try #require(fields(row.lines)), proxies: proxies(row.trusted, row.field))
        let address = try row.address.map { try #require(IPAddress($0)) }
        #expect(found == ClientAddress(address, isExempt: row.isExempt, isUnconfiguredProxy: row.isUnconfigured))
    }

    /// RFC 1918, 6598, 4193, link-local: both sides of every boundary.
    @Test(arguments: [
        ("9.255.255.255", false), ("10.0.0.0", true), ("10.255.255.255", true), ("11.0.0.0", false), ("172.15.255.255", false),
        ("172.16.0.0", true), ("172.31.255.255", true), ("172.32.0.0", false), ("192.167.255.255", false), ("192.168.0.0", true),
        ("192.168.255.255", true), ("192.169.0.0", false), ("100.63.255.255", false), ("100.64.0.0", true),
        ("100.127.255.255", true), ("100.128.0.0", false), ("169.253.255.255", false), ("169.254.0.0", true),
        ("169.254.255.255", true), ("169.255.0.0", false), ("fbff:ffff::", false), ("fc00::", true), ("fdff:ffff::1", true),
        ("fe00::", false), ("fe7f:ffff::", false), ("fe80::", true), ("febf:ffff::", true), ("fec0::", false),
        ("::ffff:10.1.2.3", true), ("2001:db8::1", false),
    ])
    func aPrivatePeerThatSendsTheFieldUntrustedIsExemptAndCounted(text: String, isPrivate: Bool) throws {
        let address = try #require(peer(text))
        let sending = ClientAddress.find(
            peer: address, fields: try #require(fields([("X-Forwarded-For", "203.0.113.7")])), proxies: TrustedProxies())
        #expect(sending.isExempt == isPrivate && sending.isUnconfiguredProxy == isPrivate)
        let silent = ClientAddress.find(peer: address, fields: .empty, proxies: TrustedProxies())
        #expect(!silent.isExempt && !silent.isUnconfiguredProxy)
        // Trusted, it is a proxy like any other.
        let trusted = ClientAddress.find(
            peer: address, fields: try #require(fields([("X-Forwarded-For", "203.0.113.7")])),
            proxies: proxies([text]))
        #expect(trusted == ClientAddress(IPAddress("203.0.113.7")))
    }

    /// The walk, written the slow way.
    private static func oracle(_ entries: [String], peer: String, trusted: (String) -> Bool) -> String {
        var reached = peer
        for entry in entries.reversed() {
            if entry.isEmpty { continue }
            guard IPAddress(entry) != nil else { return reached }
            reached = entry
            if !trusted(entry) { return entry }
        }
        return reached
    }

    @Test func randomListsOverRandomLinesAreWalkedAsTheSlowWayWalksThem() throws {
        var random = SeededRandom(seed: 7)
        let pool = [
            "10.1.1.1", "10.2.2.2", "203.0.113.7", "198.51.100.1", "2001:db8::7", "2001:db8:ffff::1", "", "unknown", "_x",
            "1.2.3.4.5", "::", "127.0.0.1",
        ]
        for _ in 0..<5000 {
            let entries = (0..<Int.random(in: 0...6, using: &random)).map { _ in
                pool[Int.random(in: pool.indices, using: &random)]
            }
            let cut = Int.random(in: 0...entries.count, using: &random)
            let lines = [Array(entries[..<cut]), Array(entries[cut...])].filter { !$0.isEmpty }
            let separator = [",", ", ", " , ", "\t,"][Int.random(in: 0..<4, using: &random)]
            let trusted = proxies(["127.0.0.2", "10.0.0.0/8", "2001:db8:ffff::/48"])
            let expected = Self.oracle(entries, peer: "127.0.0.2") { IPAddress($0).map(trusted.contains) ?? false }
            for field in ProxyField.allCases {
                var config = trusted
                config.field = field
                let encoded = lines.map { line in
                    let values = line.map { entry in
                        field == .xForwardedFor
                            ? entry : entry.isEmpty ? "" : #"proto=http;for="\#(entry.contains(":") ? "[\(entry)]" : entry)""#
                    }
                    return (field.rawValue, values.joined(separator: separator))
                }
                let found = ClientAddress.find(
                    peer: try #require(peer("127.0.0.2")), fields: try #require(fields(encoded)), proxies: config)
                #expect(found == ClientAddress(IPAddress(expected)), "\(encoded)")
            }
        }
    }

    /// Whatever a client puts in front, what the trusted proxy appends is what counts, or the peer; never what the client wrote.
    @Test func whatAClientSendsNeverBecomesItsAddress() throws {
        var random = SeededRandom(seed: 8)
        let pieces = [
            "198.51.100.1", "for=198.51.100.1", "\"", "\\", ",", ";", "=", " ", "[", "]", ":", "%", "for=", "a=\"", "10.0.0.1",
            "unknown", "é",
        ]
        let spoofed = IPAddress("198.51.100.1")
        for _ in 0..<20_000 {
            let sent = (0..<Int.random(in: 0...8, using: &random)).map { _ in
                pieces[Int.random(in: pieces.indices, using: &random)]
            }
            .joined()
            for (field, own) in [(ProxyField.xForwardedFor, "203.0.113.7"), (.forwarded, "for=203.0.113.7")] {
                guard let sentFields = fields([(field.rawValue, "\(sent), \(own)")]) else { continue }
                let found = ClientAddress.find(
                    peer: try #require(peer("127.0.0.1")), fields: sentFields, proxies: proxies(["127.0.0.1"], field))
                #expect(found.address != spoofed, "\(sent)")
                #expect(!found.isExempt, "\(sent)")
            }
        }
    }

    @Test func everyPrefixOfAFieldHasAnAnswer() throws {
        let full = #"x="a,b";for="[2001:db8:cafe::17]:4711";proto=https;host=a.example, for=10.1.2.3:80;by=_x"#
        for field in ProxyField.allCases {
            for end in full.indices {
                let cut = try #require(fields([(field.rawValue, String(full[..<end]))]))
                let found = ClientAddress.find(
                    peer: try #require(peer("127.0.0.2")), fields: cut, proxies: proxies(["127.0.0.2", "10.0.0.0/8"], field))
                let all = ["127.0.0.2", "10.1.2.3", "2001:db8:cafe::17"].map { IPAddress($0) }
                #expect(all.contains(found.address), "\(full[..<end])")
            }
        }
    }

    // MARK: Outer host and scheme

    @Test(
        arguments: [
            (
                [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Host", "app.example"), ("X-Forwarded-Proto", "HTTPS")],
                "app.example", "https"
            ),
            ([("X-Forwarded-For", "203.0.113.7")], nil, nil),
            // A list with a member for every hop is read at the client's; the left one was sent by the client.
            (
                [
                    ("X-Forwarded-For", "6.6.6.6, 203.0.113.7, 10.1.1.1"),
                    ("X-Forwarded-Host", "evil.example, app.example, inner:8080"),
                    ("X-Forwarded-Proto", "https, http"),
                ], "app.example", "https"
            ),
            // Fewer members than hops: the nearest proxy's.
            ([("X-Forwarded-For", "203.0.113.7, 10.1.1.1"), ("X-Forwarded-Host", "app.example")], "app.example", nil),
            (
                [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Host", "app.example")],
                "app.example", nil
            ),
            ([("Forwarded", "for=203.0.113.7;host=app.example;proto=https")], nil, nil),
        ] as [([(String, String)], String?, String?)])
    func theOuterHostIsWhatTheClientsOwnProxySays(lines: [(String, String)], host: String?, scheme: String?) throws {
        let config = proxies(["127.0.0.1", "10.0.0.0/8"])
        let found = OuterAuthority.find(
            peer: try #require(peer("127.0.0.1")), fields: try #require(fields(lines)), proxies: config)
        #expect(found == OuterAuthority(host: host.map { Array($0.utf8)[...] }, scheme: scheme.map { Array($0.utf8)[...] }))
        #expect(
            OuterAuthority.find(peer: try #require(peer("127.0.0.2")), fields: try #require(fields(lines)), proxies: config)
                == nil)
    }

    @Test(
        arguments: [
            (#"for=203.0.113.7;host="app.example:8443";proto=https"#, "app.example:8443", "https"),
            (
                "for=6.6.6.6;host=evil.example, for=203.0.113.7;host=app.example;proto=HTTPS, for=10.1.1.1;host=inner",
                "app.example", "https"
            ),
            ("for=203.0.113.7", nil, nil), ("host=app.example", nil, nil), (#"for=203.0.113.7;host="a"#, nil, nil),
            ("for=203.0.113.7;host=a;host=b", nil, nil),
        ] as [(String, String?, String?)])
    func theOuterHostOfForwardedStandsBesideTheClient(value: String, host: String?, scheme: String?) throws {
        let found = OuterAuthority.find(
            peer: try #require(peer("127.0.0.1")),
            fields: try #require(fields([("Forwarded", value), ("X-Forwarded-Host", "evil.example")])),
            proxies: proxies(["127.0.0.1", "10.0.0.0/8"], .forwarded))
        #expect(found == OuterAuthority(host: host.map { Array($0.utf8)[...] }, scheme: scheme.map { Array($0.utf8)[...] }))
    }
}

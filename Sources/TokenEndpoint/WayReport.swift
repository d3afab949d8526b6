import Digests
import EventLoop
import GCRA
import HTTPMessage
import HTTPServer
import January
import Primitives
import RateLimiting
import Sessions
import StrictJSON

/// What the server has seen of a probe.
package struct WayReport: Sendable, Equatable {
    package var version: String
    package var requestID: String
    /// Whoever holds the connection: an address without port, or `unix`.
    package var peer: String
    /// The peer is in `trusted_proxies`.
    package var isTrusted: Bool
    /// It is not, and sends the field of one.
    package var isUnconfigured: Bool
    /// In the lines of `trusted_proxy_field`.
    package var addressCount: Int
    /// Whom the request counts for.
    package var client: String
    /// Connections of trusted proxies that were closed by `http.idle_seconds`, since the start.
    package var idleProxyCount: Int
    package var idleSeconds: Double

    private static let digest = Array(#","sha256":""#.utf8)
    private static let end = Array(#""}"#.utf8)
    private static let digestDigits = 64

    /// The last member is the digest of all bytes in front of it.
    func encoded() -> [UInt8] {
        var content = Array(#"{"version":"#.utf8)
        JSONValue.append(version, to: &content)
        content += Array(#","request_id":"#.utf8)
        JSONValue.append(requestID, to: &content)
        content += Array(#","peer":"#.utf8)
        JSONValue.append(peer, to: &content)
        content += Array(
            #","is_trusted":\#(isTrusted),"is_unconfigured":\#(isUnconfigured),"address_count":\#(addressCount)"#.utf8)
        content += Array(#","client":"#.utf8)
        JSONValue.append(client, to: &content)
        content += Array(#","idle_proxy_count":\#(idleProxyCount),"idle_seconds":"\#(idleSeconds)""#.utf8)
        return content + Self.digest + Array(Hex.encode(SHA2.sha256.hash(content)).utf8) + Self.end
    }

    /// `nil`: it is none, or not as it was sent.
    package init?(_ content: [UInt8]) {
        let tail = Self.digest.count + Self.digestDigits + Self.end.count
        guard content.count > tail else { return nil }
        let sent = Array(content.dropLast(tail))
        let digest = Array(Hex.encode(SHA2.sha256.hash(sent)).utf8)
        guard content.suffix(tail).elementsEqual(Self.digest + digest + Self.end),
            let object = (try? JSONValue.parse(content))?.object,
            let version = object["version"]?.string, let requestID = object["request_id"]?.string,
            let peer = object["peer"]?.string, let isTrusted = object["is_trusted"]?.bool,
            let isUnconfigured = object["is_unconfigured"]?.bool,
            let addressCount = object["address_count"]?.number?.integer, let client = object["client"]?.string,
            let idleProxyCount = object["idle_proxy_count"]?.number?.integer,
            let idleSeconds = object["idle_seconds"]?.string.flatMap({ Double($0) })
        else { return nil }
        self.init(
            version: version, requestID: requestID, peer: peer, isTrusted: isTrusted, isUnconfigured: isUnconfigured,
            addressCount: Int(addressCount), client: client, idleProxyCount: Int(idleProxyCount), idleSeconds: idleSeconds)
    }

    init(
        version: String, requestID: String, peer: String, isTrusted: Bool, isUnconfigured: Bool, addressCount: Int,
        client: String, idleProxyCount: Int, idleSeconds: Double
    ) {
        self.version = version
        self.requestID = requestID
        self.peer = peer
        self.isTrusted = isTrusted
        self.isUnconfigured = isUnconfigured
        self.addressCount = addressCount
        self.client = client
        self.idleProxyCount = idleProxyCount
        self.idleSeconds = idleSeconds
    }
}

extension WayProbe {
    /// The server's answer, the same for everybody who knows its ID.
    static func response(
        _ answer: Answer, report: @autoclosure () -> [UInt8], _ id: RequestID, _ responder: Responder
    ) -> ServerResponse {
        switch answer {
        case .report:
            responder.minted(
                report(), contentType: Array("application/json".utf8)[...], januaryRequestID: "doctor", id: id)
        case .limited:
            responder.problem(
                Problem(
                    LimitNotice(
                        .address, rule: GCRARule(requests: 1, periodNanoseconds: 1_000_000_000, burst: 1),
                        wait: Int64(retryAfterSeconds) * 1_000_000_000)), id: id)
        case .unavailable: responder.problem(Problem(.overloaded, retryAfter: retryAfterSeconds), id: id)
        }
    }
}

extension MintHandler {
    /// Before anybody looks at it as a session.
    /// - Returns: whether it was a probe, which is answered now.
    func answerProbe(_ credential: SessionCredential) -> Bool {
        let keys = loop.shared.keys
        let probe = WayProbe.read(
            credential.bytes,
            keys: {
                let both = keys.keys
                return [both.current.key] + (both.other.map { [$0.key] } ?? [])
            }(), now: loop.loop.time.wall())
        guard let probe else { return false }
        exchange.respond(WayProbe.response(probe, report: seen().encoded(), requestID, loop.responder))
        var outcome = RequestOutcome(
            route: .other, method: RequestMethod(exchange.head.method), status: Self.code(of: probe)?.status ?? 201,
            requestID: requestID,
            duration: nil)
        outcome.reason = "doctor"
        outcome.code = Self.code(of: probe)
        outcome.isExpected = true
        outcome.clientRequestID = loop.clientRequestID(exchange, generation.shared)
        outcome.trace = trace
        loop.shared.recorder.record(outcome, as: generation.shared.config.log)
        return true
    }

    private static func code(of answer: WayProbe.Answer) -> ProblemCode? {
        switch answer {
        case .report: nil
        case .limited: .rateLimited
        case .unavailable: .overloaded
        }
    }

    private func seen() -> WayReport {
        let config = generation.shared.config
        let proxies = config.trustedProxies
        let client = ClientAddress.find(peer: exchange.peer, fields: exchange.head.fields, proxies: proxies)
        let addresses = exchange.head.fields.values(proxies.field.fieldName).reduce(0) { count, line in
            count + line.split(separator: UInt8(ascii: ",")).count { $0.contains { $0 != ASCII.space && $0 != 9 } }
        }
        return WayReport(
            version: TokenEndpoint.version, requestID: requestID.text,
            peer: exchange.peer.ip.map { $0.unmapped.description } ?? "unix", isTrusted: proxies.contains(exchange.peer),
            isUnconfigured: client.isUnconfiguredProxy, addressCount: addresses,
            client: client.address?.description ?? "unix",
            idleProxyCount: loop.counters?.idleProxies.load() ?? 0,
            idleSeconds: config.http.server.idleTimeout.fractionalSeconds)
    }
}

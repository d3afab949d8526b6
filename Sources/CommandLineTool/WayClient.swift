import EventLoop
import HTTPClient
import HTTPMessage
import January
import Primitives
import Sessions
import TLS
import TokenEndpoint

/// Sends what `doctor --through` asks by the public way, each request over a connection of its own. Blocks its thread.
struct WayClient {
    /// For each request.
    private static let limit = Duration.seconds(10)
    private static let handshakeLimit = Duration.seconds(5)
    /// A page of metrics is the largest that is asked for.
    private static let maxAnswerBytes = 4 << 20
    /// Nobody has it (RFC 3849): where the server believes that it is the caller's, a proxy has passed on what the caller wrote.
    static let forgedAddress = "2001:db8:d0c:70::1"
    /// Nobody can have it (RFC 6761 section 6.4).
    static let origin = "https://doctor.invalid"

    struct Failure: Error {
        let error: UpstreamError
        let tls: String?
    }

    let url: HTTPURL
    private let loop: EventLoop
    private let time: SystemTime
    private let tls: TLSClientContext

    init(_ url: HTTPURL, _ loop: EventLoop, _ time: SystemTime) throws(TLSError) {
        self.url = url
        self.loop = loop
        self.time = time
        tls = try TLSClientContext(trust: .system)
    }

    /// - Parameter isForged: it says that it comes from somewhere else, as an attacker would.
    private static func fields(
        _ credential: String?, in place: CredentialPlace, isForged: Bool, _ more: [(FieldName, String)]
    ) -> FieldBlock {
        var fields: [(FieldName, String)] = [
            (.userAgent, TokenEndpoint.userAgent + " doctor"), (.accept, "application/json"), (.acceptEncoding, "gzip"),
            (.origin, origin),
        ]
        if isForged {
            fields += [(.xForwardedFor, forgedAddress), (.forwarded, "for=\"[\(forgedAddress)]\"")]
        }
        if let credential {
            switch place {
            case .bearer: fields.append((.authorization, "Bearer \(credential)"))
            case .header(let name): fields.append((name, credential))
            }
        }
        var block = FieldBlock()
        for (name, value) in fields + more {
            // Names and values of our own. A configured name that is reserved cannot hold a session either.
            do throws(FieldError) { try block.append(name, value) } catch { continue }
        }
        return block
    }

    func ask(
        _ method: Method = .post, _ target: String, credential: String? = nil, in place: CredentialPlace = .bearer,
        isForged: Bool = false, _ more: [(FieldName, String)] = []
    ) -> Result<UpstreamResponse, Failure> {
        let outcome = Outcome<Result<UpstreamResponse, Failure>>()
        var request = UpstreamRequest(
            method: method, origin: url.origin, target: target,
            fields: Self.fields(credential, in: place, isForged: isForged, more))
        request.maxResponseBytes = Self.maxAnswerBytes
        loop.execute { [request, loop, time, tls] in
            var config = HTTPClientConfig()
            config.connectTimeout = Self.handshakeLimit
            config.handshakeTimeout = Self.handshakeLimit
            let client = HTTPClient(
                loop: loop, tls: tls, budget: ConnectionBudget(limit: 1), config: config, resolver: Resolver(time: time))
            client.send(request, deadline: time.monotonic() + Self.limit, beforeSend: nil) { result in
                outcome.set(result.mapError { Failure(error: $0, tls: client.lastTLSFailure.map { "\($0)" }) })
                client.close()
            }
        }
        return outcome.wait()
    }
}

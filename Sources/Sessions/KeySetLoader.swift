import HTTPMessage
import JOSE
import Primitives
import StrictJSON

/// Why a key set could not be loaded.
package enum KeySetLoadFailure: Error, Sendable, Hashable {
    /// No byte of the request went out: the name, the address or the other side's port is wrong, or a firewall is between.
    case notSent(UpstreamError.NotSentReason)
    /// No connection that both sides trust, with OpenSSL's reason.
    case tls(String)
    case timedOut
    /// The connection broke, or what came was no HTTP.
    case broken
    case status(Int)
    case tooLarge
    case notJSON
    /// No key that can be used.
    case empty
    /// The discovery document speaks for another issuer.
    case issuerMismatch
    /// The discovery document names no key set, or one that the URL rules forbid.
    case keySetURL

    /// Bounded: the `result` label of `jwks_refreshes_total`, and a log field.
    package var reason: String {
        switch self {
        case .notSent(let reason): reason.rawValue
        case .tls: UpstreamError.NotSentReason.tls.rawValue
        case .timedOut: "timed_out"
        case .broken: "broken"
        case .status: "status"
        case .tooLarge: "too_large"
        case .notJSON: "not_json"
        case .empty: "empty"
        case .issuerMismatch: "issuer_mismatch"
        case .keySetURL: "key_set_url"
        }
    }

    /// What an operator is told besides; bounded, too.
    package var detail: String? {
        switch self {
        case .tls(let reason): reason
        case .status(let status): String(status)
        default: nil
        }
    }
}

/// One load of a remote key set: the discovery document where there is one, then the set. Confined to its exchange's loop.
final class KeySetLoader {
    /// For both requests of one load together.
    static let loadTimeout: Duration = .seconds(5)
    static let maxAnswerBytes = 512 * 1024

    struct Loaded: Sendable {
        var set: JWKSet
        /// The answer's freshness; `nil` where it says nothing.
        var maxAge: Duration?
    }

    typealias Completion = (Result<Loaded, KeySetLoadFailure>) -> Void

    private let config: RemoteKeySetConfig
    private let exchange: any HTTPExchange

    init(config: RemoteKeySetConfig, exchange: any HTTPExchange) {
        self.config = config
        self.exchange = exchange
    }

    /// Completes once, on the loop, at the latest ``loadTimeout`` after `now`.
    func load(now: MonotonicInstant, completion: @escaping Completion) {
        let deadline = now + Self.loadTimeout
        switch config.location {
        case .keySet(let url):
            loadKeySet(at: url, deadline: deadline, completion: completion)
        case .discovery(let url, let issuer):
            get(url, deadline: deadline) { [self] answer in
                let keySetURL = answer.flatMap { response in
                    Result { () throws(KeySetLoadFailure) -> HTTPURL in
                        try Self.keySetURL(discovery: response.body, issuer: issuer, allowHTTP: config.allowHTTP)
                    }
                }
                switch keySetURL {
                case .success(let url): loadKeySet(at: url, deadline: deadline, completion: completion)
                case .failure(let failure): completion(.failure(failure))
                }
            }
        }
    }

    private func loadKeySet(at url: HTTPURL, deadline: MonotonicInstant, completion: @escaping Completion) {
        get(url, deadline: deadline) { [mayBeEmpty = config.mayBeEmpty] answer in
            completion(
                answer.flatMap { response in
                    Result { () throws(KeySetLoadFailure) -> Loaded in
                        Loaded(
                            set: try Self.keySet(response.body, mayBeEmpty: mayBeEmpty),
                            maxAge: CacheFreshness.maxAge(response.fields))
                    }
                })
        }
    }

    private func get(
        _ url: HTTPURL, deadline: MonotonicInstant, completion: @escaping (Result<UpstreamResponse, KeySetLoadFailure>) -> Void
    ) {
        let request: UpstreamRequest
        do { request = try self.request(for: url) } catch { return completion(.failure(.keySetURL)) }
        exchange.send(request, deadline: deadline, beforeSend: nil) { [exchange] result in
            switch result {
            case .success(let response) where response.status == 200: completion(.success(response))
            case .success(let response): completion(.failure(.status(response.status)))
            case .failure(.notSent(.tls)):
                completion(.failure(exchange.lastTLSFailure.map { .tls($0.description) } ?? .notSent(.tls)))
            case .failure(let error): completion(.failure(KeySetLoadFailure(error)))
            }
        }
    }

    /// The login goes to the configured origin only: a discovery document must not send it elsewhere.
    private func request(for url: HTTPURL) throws -> UpstreamRequest {
        var fields = FieldBlock()
        try fields.append(.accept, "application/json")
        if let login = config.login, url.origin == config.origin {
            try fields.append(.authorization, secret: login.credentials, prefix: "Basic ")
        }
        return UpstreamRequest(
            method: .get, origin: url.origin, target: url.target, fields: fields, body: [],
            maxResponseBytes: Self.maxAnswerBytes)
    }

    // MARK: What an answer must be

    static func keySet(_ body: [UInt8], mayBeEmpty: Bool) throws(KeySetLoadFailure) -> JWKSet {
        guard body.count <= maxAnswerBytes else { throw .tooLarge }
        let set: JWKSet
        do { set = try JWKSet.parse(body.span.bytes, source: .url) } catch { throw .notJSON }
        guard !set.keys.isEmpty || mayBeEmpty else { throw .empty }
        return set
    }

    static func keySetURL(discovery body: [UInt8], issuer: String, allowHTTP: Bool) throws(KeySetLoadFailure) -> HTTPURL {
        guard body.count <= maxAnswerBytes else { throw .tooLarge }
        let document: JSONObject
        do {
            guard let object = try JSONValue.parse(body.span.bytes, limits: discoveryLimits).object else {
                throw KeySetLoadFailure.notJSON
            }
            document = object
        } catch { throw .notJSON }
        guard let named = document["issuer"]?.string, named.hasSameBytes(as: issuer) else { throw .issuerMismatch }
        guard let text = document["jwks_uri"]?.string else { throw .keySetURL }
        do { return try VerifierURL.parse(text, allowHTTP: allowHTTP) } catch { throw .keySetURL }
    }

    private static var discoveryLimits: JSONLimits {
        var limits = JSONLimits.standard
        limits.bytes = maxAnswerBytes
        return limits
    }
}

extension RemoteKeySetConfig {
    var url: HTTPURL {
        switch location {
        case .keySet(let url), .discovery(let url, issuer: _): url
        }
    }
    var origin: Origin { url.origin }
}

extension KeySetLoadFailure {
    init(_ error: UpstreamError) {
        switch error {
        case .notSent(.tooLate), .timedOut: self = .timedOut
        case .notSent(let reason): self = .notSent(reason)
        case .broken(.tooLarge): self = .tooLarge
        case .broken: self = .broken
        }
    }
}

/// How long an answer stays fresh (RFC 9111 section 4.2): `max-age` less `Age`.
enum CacheFreshness {
    static func maxAge(_ fields: Fields) -> Duration? {
        var shortest: Int?
        for value in fields.values(.cacheControl) {
            for directive in value.split(separator: UInt8(ascii: ",")) {
                guard let seconds = maxAge(directive) else { continue }
                shortest = min(shortest ?? seconds, seconds)
            }
        }
        guard let shortest else { return nil }
        let age = fields.first(.age).flatMap { ASCII.decimal($0) } ?? 0
        return .seconds(max(0, shortest - min(age, shortest)))
    }

    /// Seconds of one directive; a number too large for this machine counts as the largest (RFC 9111 section 1.2.2).
    private static func maxAge(_ directive: ArraySlice<UInt8>) -> Int? {
        let isBlank = { (byte: UInt8) in byte == ASCII.space || byte == ASCII.horizontalTab }
        let start = directive.drop(while: isBlank)
        guard let equals = start.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        guard ASCII.equalIgnoringCase(start[..<equals], "max-age".utf8) else { return nil }
        var value = start[(equals + 1)...]
        while let last = value.last, isBlank(last) { value.removeLast() }
        if value.first == UInt8(ascii: "\""), value.last == UInt8(ascii: "\""), value.count >= 2 {
            value = value.dropFirst().dropLast()
        }
        guard !value.isEmpty, value.allSatisfy(ASCII.isDigit) else { return nil }
        return min(ASCII.decimal(value) ?? .max, 1 << 31)
    }
}

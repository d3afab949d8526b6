import HTTPMessage
import Primitives
import StrictJSON
import TokenEndpoint

/// What has arrived by the public way, and what it says about the proxy. Pure.
struct WayAnswers {
    let config: RootConfig
    let target: String
    let isEncrypted: Bool
    /// To a credential that is no session.
    let noSession: UpstreamResponse
    /// There is no proxy.
    let isDirect: Bool
    /// To the same question, asked twice: once as somebody who says that he comes from elsewhere.
    let forged: UpstreamResponse?
    let plain: UpstreamResponse?
    let limited: UpstreamResponse?
    let unavailable: UpstreamResponse?
    let wrongMethod: UpstreamResponse?
    let preflight: UpstreamResponse?

    private var reports: [UpstreamResponse] { [forged, plain].compactMap(\.self) }
    private var report: WayReport? { reports.lazy.compactMap { WayReport($0.body) }.first }
    private var all: [UpstreamResponse] {
        [noSession, limited, unavailable, wrongMethod, preflight].compactMap(\.self) + reports
    }

    private static let changed =
        "let answers through as they are (nginx: proxy_intercept_errors off, gzip off, no sub_filter or proxy_hide_header; HAProxy: no http-error, compression or http-response rule for this path)"
    private static let unseen = "the server has not seen the probe, see above"

    // MARK: Who answers

    func way(_ origin: String) -> Finding {
        if let report {
            guard report.version == TokenEndpoint.version else {
                return .failed(
                    "way",
                    "\(origin) leads to version \(RunningServer.printable(report.version)), and this is \(TokenEndpoint.version)",
                    fix: "ask with the program of the same version")
            }
            return .ok("way", "\(origin) leads to a server with this configuration's API key")
        }
        if noSession.status == 429, Self.requestID(noSession) != nil {
            return .failed("way", "\(origin) answers 429: this machine has asked too often", fix: "try again in a minute")
        }
        // Every answer is somebody else's, or changed so much that nothing of it is left: the line of answers says how.
        guard Self.requestID(noSession) != nil || Self.isOurs(noSession) else {
            return .failed(
                "way", "\(origin)\(target) is answered with HTTP \(noSession.status), and not by the server",
                fix: "let the proxy pass \(target) on to listen, see deploy/")
        }
        return .ok("way", "\(origin) leads to a server; it has not answered as one with this configuration's API key")
    }

    /// Even where its content was replaced.
    private static func isOurs(_ response: UpstreamResponse) -> Bool {
        response.fields.string(.wwwAuthenticate)?.contains("realm=\"january\"") == true
            || response.fields.string(.xRequestID)?.utf8.count == 32
    }

    // MARK: What comes back

    func answers() -> Finding {
        let name = "answers"
        func failed(_ text: String) -> Finding { .failed(name, text, fix: Self.changed) }
        if noSession.status == 429, Self.requestID(noSession) != nil { return .skipped(name, "this machine has asked too often") }
        if let text = Self.fault(of: noSession) { return failed(text) }
        guard let wrongMethod else { return failed("a 405 does not arrive") }
        let notAllowed = Self.requestID(wrongMethod).flatMap { SentAnswer.methodNotAllowed(requestID: $0, config) }
        if let text = Self.difference(wrongMethod, notAllowed, status: 405) { return failed(text) }
        let isSeen = report != nil
        for (answer, response, status) in [
            (WayProbe.Answer.report, forged, 201), (.limited, limited, 429), (.unavailable, unavailable, 503),
        ] {
            guard let response else { return failed("a \(status) does not arrive") }
            // A rate limit of the server's own has come first.
            if status != 429, response.status == 429, Self.requestID(response) != nil {
                return .skipped(name, "this machine has asked too often")
            }
            // Nobody has answered the probe: a 401 was looked at above.
            if !isSeen && response.status == 401 { continue }
            let isWhole = answer != .report || WayReport(response.body) != nil
            let id = answer == .report ? WayReport(response.body)?.requestID : Self.requestID(response)
            let sent = isWhole ? id.flatMap { SentAnswer.expected(answer, requestID: $0, content: response.body) } : nil
            if let text = Self.difference(response, sent, status: status) { return failed(text) }
        }
        guard isSeen else {
            return .failed(
                name, "the server does not know this configuration's API key, or the clocks are more than a minute apart",
                fix: "run doctor with the configuration of the server behind this address, whose Authorization arrives")
        }
        return .ok(name, "201, 401, 405, 429 and 503 arrive as the server sent them")
    }

    /// Of a 401, whose words depend on the verifiers.
    private static func fault(of response: UpstreamResponse) -> String? {
        guard response.status == 401 else { return "a bad session is answered with HTTP \(response.status) instead of 401" }
        if let text = coding(response) { return text }
        guard response.fields.contains(.wwwAuthenticate) else { return "WWW-Authenticate is taken away from a 401" }
        guard let sent = requestID(response) else { return "the content of a 401 is changed" }
        switch response.fields.values(.xRequestID) {
        case let values where values.isEmpty: return "X-Request-Id is taken away from a 401"
        case let values where values.count > 1: return "X-Request-Id arrives twice with a 401"
        default: return response.fields.string(.xRequestID) == sent ? nil : "X-Request-Id of a 401 is changed"
        }
    }

    private static func coding(_ response: UpstreamResponse) -> String? {
        response.fields.string(.contentEncoding).map { "answers are compressed (\(RunningServer.printable($0)))" }
    }

    /// - Parameter sent: `nil` where the content is not that of one of our answers.
    private static func difference(_ response: UpstreamResponse, _ sent: SentAnswer?, status: Int) -> String? {
        guard response.status == status else { return "a \(status) arrives as HTTP \(response.status)" }
        if let text = coding(response) { return text }
        guard let sent, response.body == sent.content else { return "the content of a \(status) is changed" }
        for (name, value) in sent.fields where name != "Cache-Control" {
            guard let field = FieldName(parsing: name) else { continue }
            switch response.fields.count(of: field) {
            case 0: return "\(name) is taken away from a \(status)"
            case 1: if response.fields.string(field) != value { return "\(name) of a \(status) is changed" }
            default: return "\(name) arrives twice with a \(status)"
            }
        }
        return nil
    }

    /// As the content says it, which is one of our errors.
    private static func requestID(_ response: UpstreamResponse) -> String? {
        guard let object = (try? JSONValue.parse(response.body))?.object, object["code"]?.string != nil else { return nil }
        return object["request_id"]?.string
    }

    func caching() -> Finding {
        let name = "caching"
        let fix = "switch the cache off for this path (nginx: proxy_cache off) and leave Cache-Control as it is"
        let answers = reports + [noSession]
        let ids = answers.compactMap { $0.fields.string(.xRequestID) }
        if Set(ids).count < ids.count {
            return .failed(name, "two requests got the same answer: one person's token would be given to another", fix: fix)
        }
        if all.contains(where: { $0.fields.contains(.age) }) {
            return .failed(name, "answers come out of a cache (Age)", fix: fix)
        }
        let isAllowed = answers.contains { response in
            response.fields.values(.cacheControl).map { Array($0) } != [Array("no-store".utf8)]
        }
        if isAllowed { return .failed(name, "Cache-Control: no-store does not arrive alone: caches may keep tokens", fix: fix) }
        return .ok(name, "no-store arrives, and every request has an answer of its own")
    }

    func crossOrigin() -> Finding {
        let name = "CORS"
        let values = all.map { $0.fields.values(.accessControlAllowOrigin) }
        if values.contains(where: { $0.count > 1 || $0.contains { $0.contains(UInt8(ascii: ",")) } }) {
            return .failed(
                name, "Access-Control-Allow-Origin arrives twice: browsers refuse the answer",
                fix: "let only one say it: take the proxy's own CORS fields away")
        }
        if values.contains(where: { !$0.isEmpty }) {
            return .failed(
                name, "the proxy allows an origin that nobody has named (\(WayClient.origin))",
                fix: "let the proxy name the origins that may ask, one by one, or take its CORS fields away")
        }
        if preflight == nil { return .skipped(name, "a preflight request is not answered") }
        return .ok(name, "an origin that nobody has named is not allowed on the way")
    }

    // MARK: What the server has seen

    func clientAddress() -> Finding {
        let name = "client address"
        let field = config.trustedProxies.field == .forwarded ? "Forwarded" : "X-Forwarded-For"
        let value = config.trustedProxies.field == .forwarded ? #""for=$remote_addr""# : "$remote_addr"
        let setsField = "(nginx: proxy_set_header \(field) \(value); HAProxy: http-request set-header X-Forwarded-For %[src])"
        if isDirect { return .skipped(name, "this is the server itself, without a proxy") }
        guard let report = forged.flatMap({ WayReport($0.body) }), let unforged = plain.flatMap({ WayReport($0.body) }) else {
            return .skipped(name, Self.unseen)
        }
        // Who sends the field though we do not is a proxy; and with TLS that is not ours there is somebody in front.
        if unforged.isUnconfigured || (!report.isTrusted && isEncrypted && config.tls == nil) {
            return .failed(
                name,
                "the proxy (\(RunningServer.printable(report.peer))) is not in trusted_proxies: all its clients count as one or none",
                fix: "add its address to trusted_proxies")
        }
        if report.client == WayClient.forgedAddress {
            guard report.addressCount == 1 else {
                return .skipped(
                    name, "the proxy adds this machine's address, which is in trusted_proxies itself: ask from another")
            }
            return .failed(
                name, "callers choose their own: the proxy passes on what they write into \(field)",
                fix: "let the proxy write the field itself \(setsField)")
        }
        if report.isTrusted && report.addressCount == 0 {
            return .failed(
                name, "the proxy does not say whom it speaks for: everybody behind it counts as one",
                fix: "let the proxy write \(field) \(setsField)")
        }
        return .ok(name, "\(RunningServer.printable(report.client)); a forged one is not believed")
    }

    func keepAlive() -> Finding {
        let name = "keep-alive"
        guard let report else { return .skipped(name, Self.unseen) }
        if report.peer == "unix" { return .skipped(name, "connections by a Unix socket are not looked at") }
        if report.idleProxyCount > 0 {
            return .failed(
                name,
                "\(report.idleProxyCount) connections of proxies were closed by the server after \(report.idleSeconds) s: a request that crosses such a close is lost",
                fix:
                    "let the proxy close first (nginx: keepalive_timeout in the upstream block; HAProxy: http-reuse never), or raise http.idle_seconds above the proxy's own"
            )
        }
        if reports.allSatisfy({ $0.fields.listContains(.connection, "close") }) {
            return .failed(
                name, "the proxy ends the connection behind every answer: each token costs a TLS handshake",
                fix: "let the proxy keep connections of clients (nginx: keepalive_timeout 60s; HAProxy: no option httpclose)")
        }
        return .ok(name, "kept for clients, and the server has closed no proxy's since its start")
    }

    static func isOfManagement(_ response: UpstreamResponse) -> Bool {
        if response.fields.string(.wwwAuthenticate)?.contains("realm=\"january-management\"") == true { return true }
        if response.status == 200, String(decoding: response.body.prefix(65_536), as: UTF8.self).contains("january_endpoint_") {
            return true
        }
        guard response.fields.contains(.xRequestID), let object = (try? JSONValue.parse(response.body))?.object else {
            return false
        }
        // Of /readyz and /status.json; errors have a code.
        return object["code"] == nil && (object["status"] != nil || object["version"] != nil)
    }
}

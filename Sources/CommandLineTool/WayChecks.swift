import EventLoop
import HTTPMessage
import January
import Primitives
import Sessions
import TLS
import TokenEndpoint

/// `doctor --through URL`: what the proxy in front of the running server changes. Sends requests that mint nothing by the way apps take, compares
/// what arrives with what the server sends, and reads in ``WayReport`` what the server has seen.
struct WayChecks {
    private let config: RootConfig
    private let client: WayClient
    private let target: String
    private let time: SystemTime
    /// Where probes go: in a field of its own only where sessions do not come as bearer tokens.
    private let place: CredentialPlace

    /// - Parameter text: the public address; without a path, the first of `paths.token` belongs behind it.
    /// - Returns: `nil` where that is no address to ask; the console says why.
    static func make(
        _ text: String, _ config: RootConfig, _ loop: EventLoop, _ time: SystemTime, _ console: any Console
    ) throws(TLSError) -> WayChecks? {
        let url: HTTPURL
        do throws(HTTPURLError) {
            url = try HTTPURL.parse(text)
        } catch {
            console.complain("--through: \(error.requirement)")
            return nil
        }
        guard url.userInfo == nil else {
            console.complain("--through: must not have user information")
            return nil
        }
        guard url.origin.scheme == .https || url.origin.isLoopback else {
            console.complain("--through: must be https, or http to a loopback address")
            return nil
        }
        return WayChecks(config, try WayClient(url, loop, time), time)
    }

    private init(_ config: RootConfig, _ client: WayClient, _ time: SystemTime) {
        self.config = config
        self.client = client
        self.time = time
        target = client.url.target == "/" ? config.tokenPaths.first ?? "/" : client.url.target
        place = config.sessions.from.contains(.bearer) ? .bearer : config.sessions.from.first ?? .bearer
    }

    func run() -> [Finding] {
        let first: UpstreamResponse
        switch client.ask(.post, target, credential: Self.noSession(), in: place) {
        case .success(let response): first = response
        case .failure(let failure): return [unreachable(failure)]
        }
        let seen = WayAnswers(
            config: config, target: target, isEncrypted: client.url.origin.scheme == .https, noSession: first,
            isDirect: isDirect, forged: probe(.report, isForged: !isDirect), plain: probe(.report), limited: probe(.limited),
            unavailable: probe(.unavailable),
            wrongMethod: try? client.ask(.put, target).get(),
            preflight: try? client.ask(.options, target, [(.accessControlRequestMethod, "POST")]).get())
        return [seen.way("\(client.url.origin)")] + [seen.answers()] + config.sessions.from.map(credential)
            + [seen.caching(), seen.crossOrigin(), seen.clientAddress(), seen.keepAlive(), management()]
    }

    private static func noSession() -> String { "doctor-" + Hex.encode(SystemRandom.bytes(8)) }

    /// The server itself: there is no proxy in between.
    private var isDirect: Bool {
        guard client.url.origin.isLoopback, let address = config.listen.isInherited ? nil : config.listen.socketAddress else {
            return false
        }
        return address.port.map { Int($0) == client.url.origin.port } ?? false
    }

    private func probe(_ answer: WayProbe.Answer, isForged: Bool = false) -> UpstreamResponse? {
        let credential = WayProbe.credential(answer, key: config.january.apiKey, now: time.wall())
        return try? client.ask(.post, target, credential: credential, in: place, isForged: isForged).get()
    }

    private func unreachable(_ failure: WayClient.Failure) -> Finding {
        if failure.error == .notSent(.tls) {
            return .failed(
                "way", "\(client.url.origin): no TLS connection (\(failure.tls ?? "tls"))",
                fix: "give the proxy a certificate for this name, with its whole chain, that this machine trusts (SSL_CERT_FILE)")
        }
        return .failed(
            "way", "\(client.url.origin) does not answer (\(failure.error.reason))",
            fix: "check the name, the port, the firewall and the proxy's own log")
    }

    /// A credential that is no session is refused in another way than none.
    private func credential(_ place: CredentialPlace) -> Finding {
        let name =
            switch place {
            case .bearer: "Authorization"
            case .header(let field): field.text
            }
        let response = try? client.ask(.post, target, credential: Self.noSession(), in: place).get()
        guard let response, response.status == 401, let challenge = response.fields.string(.wwwAuthenticate) else {
            return .skipped(name, "cannot be said while answers are changed")
        }
        if challenge.contains("error=") { return .ok(name, "arrives") }
        return .failed(
            name, "is lost on the way: every session would be refused",
            fix:
                "let the proxy pass \(name) on (nginx: no proxy_set_header \(name) \"\"; HAProxy: no http-request del-header; a proxy that checks passwords itself takes Authorization away)"
        )
    }

    private func management() -> Finding {
        var unknown: String?
        for path in ["/readyz", "/metrics", "/status.json", "/january/client-token-revocations"] {
            switch client.ask(.get, path) {
            case .success(let response) where WayAnswers.isOfManagement(response):
                return .failed(
                    "management", "\(path) of the management listener is reachable by the public way",
                    fix: "let the proxy pass the token path on and no other, to the public listener")
            case .success: continue
            case .failure(let failure):
                unknown = "\(path) is not answered (\(failure.error.reason)), so where it leads is not known"
            }
        }
        if let unknown { return .skipped("management", unknown) }
        return .ok("management", "the management listener is not reachable by the public way")
    }
}

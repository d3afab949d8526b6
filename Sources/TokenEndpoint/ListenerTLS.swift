import Configuration
import EventLoop
import HTTPServer
import Primitives
import TLS
import Telemetry

/// The section `tls`: the public listener speaks HTTPS itself. Absent where a proxy does.
package struct ListenerTLS: Sendable {
    /// The files, ready for use.
    package let context: TLSServerContext
    /// From the accept to the end of the handshake: who stalls there has sent no request yet.
    package let handshakeTimeout: Duration

    private static let maxBytes = 1 << 20
    /// Time enough to notice that the renewal has failed.
    private static let warnedDays: Int64 = 14

    package func secondsLeft(now: WallInstant) -> Int64 { context.expiresAt - now.secondsSinceEpoch }

    /// `nil`: it is good for long.
    package func expiryWarning(now: WallInstant) -> String? {
        let seconds = secondsLeft(now: now)
        let days = seconds.magnitude / 86_400
        let text = "\(days) day\(days == 1 ? "" : "s")"
        if seconds <= 0 { return "has expired\(days == 0 ? "" : " \(text) ago"): clients refuse to connect" }
        return seconds < Self.warnedDays * 86_400 ? "expires in \(text)" : nil
    }

    static func read(_ section: ConfigSection) -> ListenerTLS? {
        let certificates = section.file("certificate_file", maxBytes: maxBytes)
        let key = section.secretFile("private_key_file")
        let timeout = section.seconds("handshake_seconds", default: .seconds(10), in: .milliseconds(100) ... .seconds(86_400))
        section.finish()
        guard section.has("certificate_file") || section.has("private_key_file") else { return nil }
        if !section.has("certificate_file") { section.problem("certificate_file", "required beside private_key_file") }
        if !section.has("private_key_file") { section.problem("private_key_file", "required beside certificate_file") }
        guard let certificates, let key else { return nil }
        do throws(TLSError) {
            return ListenerTLS(
                context: try TLSServerContext(certificates: certificates.bytes, privateKey: key.secret),
                handshakeTimeout: timeout)
        } catch {
            switch error {
            case .badPrivateKey: section.problem("private_key_file", "holds no private key in PEM that needs no password")
            case .keyMismatch: section.problem("private_key_file", "is not the key of the first certificate in certificate_file")
            default: section.problem("certificate_file", "holds no certificates that can be used (\(error.reason))")
            }
            return nil
        }
    }
}

/// The certificate in force, for every loop: a handshake takes the one of its beginning.
final class ListenerCertificate: Sendable {
    private let current: Lock<TLSServerContext?>

    init(_ tls: ListenerTLS?) { current = Lock(tls?.context) }

    func replace(_ tls: ListenerTLS?) { current.withLock { $0 = tls?.context } }

    /// `nil`: the listener speaks plain HTTP.
    var makeTransport: TransportFactory? {
        guard current.withLock({ $0 }) != nil else { return nil }
        return { [self] descriptor in
            guard let context = current.withLock({ $0 }) else { return nil }
            return try? TLSStream(server: context, descriptor: descriptor)
        }
    }

    func register(_ metrics: Metrics) {
        metrics.gauges(
            "certificate_expiry_timestamp_seconds", help: "When the listener's certificate ends, Unix time.",
            labels: ["listener"]
        ) { [self] in
            current.withLock { $0 }.map { [(["public"], Double($0.expiresAt))] } ?? []
        }
    }
}

import HTTPMessage
import Primitives
import StrictJSON

/// What January says about a key when it is asked for nothing but the account's credits: free, and answered when the month is spent, too.
package enum KeyCheck: Sendable, Equatable {
    /// `remaining`: credits; `nil`: no ceiling, or January did not say.
    case accepted(remaining: Int?)
    /// 401
    case rejected
    /// 403: a key of another API version.
    case otherVersion
    case unexpected(status: Int)
    /// No answer; the bounded reason.
    case failed(String)
}

extension JanuaryClient {
    /// Below the base URL.
    package static let creditsPath = "/v1.2/credits"

    /// Asks for the credits with this key. No breaker has a say, and none hears of it.
    ///
    /// `completion`: exactly once, on the loop, with January's clock where it gave one.
    package func check(
        _ key: APIKey, of service: JanuaryService, userAgent: String, deadline: MonotonicInstant,
        completion: @escaping (KeyCheck, WallInstant?) -> Void
    ) {
        let fields = KeyInUse(key, slot: .first, userAgent: userAgent).fields
        let request = UpstreamRequest(
            method: .get, origin: service.origin, target: service.pathPrefix + Self.creditsPath, fields: fields)
        exchange.send(request, deadline: deadline, beforeSend: nil) { [exchange, time] result in
            switch result {
            case .failure(let error):
                let detail = error == .notSent(.tls) ? exchange.lastTLSFailure.map { " (\($0))" } ?? "" : ""
                completion(.failed(error.reason + detail), nil)
            case .success(let response):
                let date = response.fields.string(.date).flatMap { HTTPDate.parse($0, now: time.wall()) }
                completion(Self.verdict(response), date)
            }
        }
    }

    private static func verdict(_ response: UpstreamResponse) -> KeyCheck {
        switch response.status {
        case 200:
            let body = response.body
            let document = try? JSONValue.parse(body.span.bytes)
            guard let object = document?.object else { return .unexpected(status: 200) }
            return .accepted(remaining: object["remaining_credits"]?.number?.integer.map { Int($0) })
        case 401: return .rejected
        case 403: return .otherVersion
        // The key was looked at before the limit.
        case 429: return .accepted(remaining: nil)
        default: return .unexpected(status: response.status)
        }
    }
}

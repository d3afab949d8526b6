import Digests
import EventLoop
import HTTPServer
import January
import Primitives

/// A request of `doctor --through`: made by whoever holds the same API key, in the place of a session, and answered with what the server has seen of
/// it or with an answer both sides know by heart. So `doctor` learns what a proxy makes of requests and answers from whichever replica it comes to,
/// and nothing has to be counted for it.
///
/// `doctor-probe.ANSWER.TIME.NONCE.CODE`, in the characters of a bearer token (RFC 6750 section 2.1). `TIME` is Unix time in seconds; `CODE` is HMAC-SHA256
/// of what stands before it, under a key made from the API key for nothing else. Whoever sees one may send it again for five minutes, and learns
/// what the server says to him.
package struct WayProbe: Sendable, Equatable {
    package enum Answer: String, Sendable, CaseIterable {
        /// 201 with the fields of a minted token, and a ``WayReport`` in its place.
        case report
        /// 429 of a rate limit.
        case limited
        /// 503 with `Retry-After`.
        case unavailable
    }

    /// From one request to the last, and between the clocks of two machines.
    static let goodForSeconds: Int64 = 300
    /// So far the clock of who asks may be ahead.
    static let aheadSeconds: Int64 = 60
    static let maxBytes = 200
    private static let prefix: StaticString = "doctor-probe."
    private static let purpose = Array("january-token-endpoint: doctor --through, version 1".utf8)
    /// In every answer with `Retry-After`, so that a value that was changed on the way is seen.
    static let retryAfterSeconds = 17

    package static func credential(_ answer: Answer, key: APIKey, now: WallInstant) -> String {
        let text = "\(prefix)\(answer.rawValue).\(now.secondsSinceEpoch).\(Hex.encode(SystemRandom.bytes(8)))"
        return "\(text).\(Hex.encode(code(of: Array(text.utf8), key)))"
    }

    /// - Returns: what is asked for; `nil`: it is no probe, or nobody who holds one of the keys has made it lately.
    static func read(_ credential: ArraySlice<UInt8>, keys: @autoclosure () -> [APIKey], now: WallInstant) -> Answer? {
        guard isPrefixed(credential), credential.count <= maxBytes else { return nil }
        let parts = credential.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 5, let answer = Answer(rawValue: String(decoding: parts[1], as: UTF8.self)),
            let time = ASCII.decimal(parts[2]), (-goodForSeconds...aheadSeconds).contains(Int64(time) - now.secondsSinceEpoch)
        else { return nil }
        let text = Array(credential[..<parts[4].startIndex].dropLast())
        let sent = Array(parts[4])
        for key in keys() {
            let code = Array(Hex.encode(code(of: text, key)).utf8)
            if ConstantTime.equal(code.span.bytes, sent.span.bytes) { return answer }
        }
        return nil
    }

    private static func isPrefixed(_ credential: ArraySlice<UInt8>) -> Bool {
        prefix.withUTF8Buffer { credential.starts(with: $0) }
    }

    private static func code(of text: [UInt8], _ key: APIKey) -> [UInt8] {
        let own = Secret(HMACKey(.sha256, key: key.secret).authenticate(purpose))
        return HMACKey(.sha256, key: own).authenticate(text)
    }
}

/// An answer as the server sends it, for comparison with what arrives.
package struct SentAnswer: Sendable, Equatable {
    package let status: Int
    /// Names as they are written, each once.
    package let fields: [(name: String, value: String)]
    package let content: [UInt8]

    package static func == (left: Self, right: Self) -> Bool {
        left.status == right.status && left.content == right.content && left.fields.elementsEqual(right.fields, by: ==)
    }

    init(_ response: ServerResponse) {
        status = response.status
        content = response.content
        fields = String(decoding: response.fields, as: UTF8.self).split(separator: "\r\n").map { line in
            let parts = line.split(separator: ":", maxSplits: 1)
            return (String(parts[0]), parts.count > 1 ? String(parts[1].drop { $0 == " " }) : "")
        }
    }

    /// The same answer, once more. `content` of a report is what arrived: that says itself whether it is whole.
    ///
    /// - Returns: `nil` where `requestID` is none of ours.
    package static func expected(_ answer: WayProbe.Answer, requestID: String, content: [UInt8] = []) -> SentAnswer? {
        guard let id = RequestID(parsing: requestID) else { return nil }
        return SentAnswer(WayProbe.response(answer, report: content, id, Responder()))
    }

    /// What a method is answered that the token path does not have.
    package static func methodNotAllowed(requestID: String, _ config: RootConfig) -> SentAnswer? {
        guard let id = RequestID(parsing: requestID) else { return nil }
        let routes = Routes(tokenPaths: config.tokenPaths, hasSignOut: config.selfService.isOn)
        return SentAnswer(Responder().problem(.methodNotAllowed(allow: routes.tokenMethods), id: id))
    }
}

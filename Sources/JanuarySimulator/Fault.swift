import Primitives

/// What goes wrong with one request. The parts combine: a delay and a wrong echo and an answer in chunks are one fault.
package struct Fault: Sendable, Equatable {
    /// What becomes of the connection instead of an answer.
    package enum Disruption: Sendable, Equatable {
        /// TCP reset before January has done anything.
        case resetBeforeCommit
        /// January has done its work; nobody hears of it.
        case resetAfterCommit
        /// Closed in order (FIN) without an answer, before or after the work.
        case closeBeforeCommit
        case closeAfterCommit
        /// No answer, the connection stays open until the client gives up.
        case hangBeforeCommit
        case hangAfterCommit
        /// As `hang`, but ``Simulator/release()`` lets it go on: work, then answer.
        case holdBeforeCommit
        case holdAfterCommit
    }

    /// What is answered. Parts about a mint leave other answers alone.
    package struct Content: Sendable, Equatable {
        /// Instead of January's own answer: this status and code. Nothing is done then (no token is minted).
        package var refusal: Refusal?
        /// Status in place of the right one; the work is done and the body is the right one.
        package var status: Int?
        package var endUserID: String?
        package var scopes: [String]?
        /// Lifetime of the token, really and as echoed.
        package var expiresIn: Int?
        /// JSON text in place of the number in `expires_in`, only echoed.
        package var expiresInText: String?
        /// The token as it is shown; the real one stays in the table.
        package var token: String?
        package var missingMembers: [String] = []
        package var duplicateMembers: [String] = []
        /// JSON text of further members, as `"a": 1`.
        package var extraMembers: String?
        /// The content, whatever it was.
        package var body: [UInt8]?
        package var contentType: String?
        /// A redirect to here: status 307 unless `status` says otherwise. The work is not done.
        package var location: String?
        /// The revocation stops this many tokens and answers 503 `client_token_revocation_incomplete`.
        package var revocationStopsAfter: Int?

        package init() {}
    }

    package struct Refusal: Sendable, Equatable {
        package var status: Int
        package var code: String
        package var message: String?
        /// `Retry-After` as text: seconds, a date, or nonsense.
        package var retryAfter: String?

        package init(status: Int, code: String, message: String? = nil, retryAfter: String? = nil) {
            self.status = status
            self.code = code
            self.message = message
            self.retryAfter = retryAfter
        }
    }

    /// How the answer is written.
    package struct Wire: Sendable, Equatable {
        /// Bytes of the whole answer that are written before the connection is closed.
        package var truncateAt: Int?
        /// The cut is a reset instead of a close.
        package var truncateWithReset = false
        package var drip: Drip?
        package var gzip = false
        package var chunked = false
        package var http10 = false
        /// Neither length nor chunks: the end of the connection ends the content.
        package var untilClose = false
        /// Statuses of interim answers written before the real one.
        package var informational: [Int] = []
        package var extraBytesAfter: [UInt8] = []
        package var connectionClose = false
        /// `Content-Length` is wrong by this much.
        package var lengthOffset = 0
        /// Further field lines, each without its line end, written as they are.
        package var extraFieldLines: [String] = []
        /// All bytes of the answer, in place of everything above but `truncateAt` and `drip`.
        package var raw: [UInt8]?

        package init() {}
    }

    package struct Drip: Sendable, Equatable {
        package var bytes: Int
        package var every: Duration

        package init(bytes: Int, every: Duration) {
            self.bytes = max(1, bytes)
            self.every = every
        }
    }

    /// Closes the connection when it has been idle after this answer for a time between the two bounds.
    package struct IdleClose: Sendable, Equatable {
        package var after: ClosedRange<Duration>
        package var withReset = false

        package init(after: ClosedRange<Duration>, withReset: Bool = false) {
            self.after = after
            self.withReset = withReset
        }
    }

    /// Between the request and January's work.
    package var delayBeforeCommit: Duration = .zero
    /// Between January's work and the answer.
    package var delay: Duration = .zero
    package var disruption: Disruption?
    package var content = Content()
    package var wire = Wire()
    package var idleClose: IdleClose?

    package init() {}

    /// January's work is not done at all.
    var skipsWork: Bool {
        if content.refusal != nil || content.location != nil { return true }
        switch disruption {
        case .resetBeforeCommit, .closeBeforeCommit, .hangBeforeCommit: return true
        case .resetAfterCommit, .closeAfterCommit, .hangAfterCommit, .holdBeforeCommit, .holdAfterCommit, nil: return false
        }
    }
}

/// The faults a scenario uses most, by name.
extension Fault {
    package static func delayed(_ delay: Duration) -> Fault { with { $0.delay = delay } }
    package static func delayedBeforeCommit(_ delay: Duration) -> Fault { with { $0.delayBeforeCommit = delay } }
    package static func disrupted(_ disruption: Disruption) -> Fault { with { $0.disruption = disruption } }
    package static func refused(_ status: Int, _ code: String, retryAfter: String? = nil) -> Fault {
        with { $0.content.refusal = Refusal(status: status, code: code, retryAfter: retryAfter) }
    }
    package static func answered(_ status: Int, contentType: String = "application/json", body: String) -> Fault {
        with {
            $0.content.status = status
            $0.content.contentType = contentType
            $0.content.body = Array(body.utf8)
        }
    }
    package static var html502: Fault {
        answered(502, contentType: "text/html", body: "<html><body><h1>502 Bad Gateway</h1></body></html>\n")
    }
    package static var notJSON: Fault { with { $0.content.body = Array("{\"token\": \"ct-".utf8) } }
    package static func redirect(_ status: Int, to location: String) -> Fault {
        with {
            $0.content.status = status
            $0.content.location = location
        }
    }
    package static var gzipped: Fault { with { $0.wire.gzip = true } }
    package static func truncated(at byte: Int) -> Fault { with { $0.wire.truncateAt = byte } }
    package static func dripping(bytes: Int, every: Duration) -> Fault {
        with { $0.wire.drip = Drip(bytes: bytes, every: every) }
    }
    package static func echo(endUserID: String) -> Fault { with { $0.content.endUserID = endUserID } }
    package static func echo(scopes: [String]) -> Fault { with { $0.content.scopes = scopes } }
    package static func lifetime(_ seconds: Int) -> Fault { with { $0.content.expiresIn = seconds } }
    package static func idleClose(after range: ClosedRange<Duration>, withReset: Bool = false) -> Fault {
        with { $0.idleClose = IdleClose(after: range, withReset: withReset) }
    }

    package static func with(_ change: (inout Fault) -> Void) -> Fault {
        var fault = Fault()
        change(&fault)
        return fault
    }
}

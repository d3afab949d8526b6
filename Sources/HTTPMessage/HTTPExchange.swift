import Primitives

/// One request to one upstream.
package struct UpstreamRequest: Sendable {
    package var method: Method
    package var origin: Origin
    /// Path and query in origin-form.
    package var target: String
    /// Without `Host`, `Content-Length` and `Connection`, which the client writes.
    package var fields: FieldBlock
    package var body: [UInt8]
    /// Once more on a fresh connection when no byte of it can have gone out.
    package var retriesWhenUnsent = true
    /// Nothing is sent after it.
    package var sendBy: MonotonicInstant?
    /// Content beyond it is ``UpstreamError/BrokenReason/tooLarge``.
    package var maxResponseBytes = 65536

    package init(
        method: Method, origin: Origin, target: String, fields: FieldBlock = FieldBlock(), body: [UInt8] = [],
        retriesWhenUnsent: Bool = true, sendBy: MonotonicInstant? = nil, maxResponseBytes: Int = 65536
    ) {
        self.method = method
        self.origin = origin
        self.target = target
        self.fields = fields
        self.body = body
        self.retriesWhenUnsent = retriesWhenUnsent
        self.sendBy = sendBy
        self.maxResponseBytes = maxResponseBytes
    }
}

package struct UpstreamResponse: Sendable {
    package var status: Int
    package var fields: Fields
    /// Content, with every coding removed.
    package var body: [UInt8]

    package init(status: Int, fields: Fields = .empty, body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// Why there is no response. Whether a byte of the request went out is the whole question: after one did, the request may have had
/// its effect.
package enum UpstreamError: Error, Equatable, Sendable {
    case notSent(NotSentReason)
    case broken(BrokenReason)
    case timedOut(sent: Bool)

    package enum NotSentReason: String, Sendable, CaseIterable {
        case refused
        case connectTimeout = "connect_timeout"
        case dns
        case tls
        case closedBeforeSend = "closed_before_send"
        case tooManyWaiting = "too_many_waiting"
        case tooLate = "too_late"
        case cancelled
    }

    package enum BrokenReason: String, Sendable, CaseIterable {
        case reset
        case closedEarly = "closed_early"
        case malformed
        case tooLarge = "too_large"
        case undecodable
    }

    package var wasSent: Bool {
        switch self {
        case .notSent: false
        case .broken: true
        case .timedOut(let sent): sent
        }
    }

    /// Bounded: a metric label and log field.
    package var reason: String {
        switch self {
        case .notSent(let reason): reason.rawValue
        case .broken(let reason): reason.rawValue
        case .timedOut(let sent): sent ? "timed_out" : "timed_out_unsent"
        }
    }
}

/// One request, one response, a deadline. Loop-confined: called on its loop, and `completion` runs on the same loop exactly once,
/// before `send` returns only for errors.
package protocol HTTPExchange: AnyObject {
    /// `deadline` is for the whole exchange, waiting for a connection included. `beforeSend` is asked right before the first byte goes
    /// out; `false` ends it as `.notSent(.cancelled)`.
    func send(
        _ request: consuming UpstreamRequest, deadline: MonotonicInstant, beforeSend: (() -> Bool)?,
        completion: @escaping (Result<UpstreamResponse, UpstreamError>) -> Void)

    /// Why the last handshake failed, finer than `.notSent(.tls)`. Bounded: for a log line.
    var lastTLSFailure: StaticString? { get }

    /// Inside a completion that fails although the head of the response had come: the fields of that head.
    var brokenResponseFields: Fields? { get }
}

extension HTTPExchange {
    package var brokenResponseFields: Fields? { nil }
    package var lastTLSFailure: StaticString? { nil }
}

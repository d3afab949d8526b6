import HTTPMessage
import January
import Primitives
import Telemetry

/// One request in its trace: its own span and those of the calls to January that it makes. Belongs to the loop of its request.
///
/// Names and attributes are those of OpenTelemetry's stable semantic conventions for HTTP, and of `january_endpoint` what they do not
/// know. What a caller chooses is in none of them: no path but a configured one, no query, no field but the ids of `traceparent` and
/// `tracestate`. Nor is what is secret or about a person: no session, no key, no token, no address, no end user.
final class RequestTrace {
    let context: TraceContext
    private let parent: UInt64
    private let state: [UInt8]
    private let tracer: LoopTracer
    private let method: RequestMethod
    private let route: String?
    private let isHTTP10: Bool
    private let clock: SpanClock
    private let began: MonotonicInstant
    /// Calls to January whose outcome is not known yet, the first key's before the other's.
    private var calls: [(spanID: UInt64, began: MonotonicInstant)] = []

    init(
        context: TraceContext, parent: UInt64, state: [UInt8], tracer: LoopTracer, head: RequestHead, route: String?,
        clock: SpanClock, began: MonotonicInstant
    ) {
        self.context = context
        self.parent = parent
        self.state = state
        self.tracer = tracer
        self.route = route
        self.clock = clock
        self.began = began
        method = RequestMethod(head.method)
        isHTTP10 = head.version == .http10
    }

    // MARK: Calls to January

    /// January is about to be asked. What was begun before and not sent counts for nothing.
    ///
    /// - Parameter resuming: the first key was asked already, and refused.
    func beginCalls(resuming: Bool) { calls = Array(calls.prefix(resuming ? 1 : 0)) }

    /// One more request of the call: its own span, and the fields that say so.
    func beginCall(_ fields: inout FieldBlock) {
        let spanID = tracer.makeSpanID()
        calls.append((spanID, tracer.now))
        TraceFields.append(
            TraceContext(
                traceHigh: context.traceHigh, traceLow: context.traceLow, spanID: spanID, isSampled: context.isSampled),
            state: state, to: &fields)
    }

    /// What January answered, or did not.
    func callsEnded(_ outcome: MintOutcome, _ service: JanuaryService) {
        defer { calls = [] }
        guard context.isSampled else { return }
        for (index, attempt) in [outcome.first, outcome.second].enumerated() {
            // What was cancelled before its first byte was no call.
            guard let attempt, index < calls.count, attempt.error != .notSent(.cancelled) else { continue }
            let call = calls[index]
            let own = TraceContext(
                traceHigh: context.traceHigh, traceLow: context.traceLow, spanID: call.spanID, isSampled: true)
            var span = SpanText.ofCall(
                own, parent: context.spanID, state: state, method: .post, origin: service.origin,
                target: service.pathPrefix + MintRequest.path, template: MintRequest.path, start: clock.wall(at: call.began),
                end: clock.wall(at: call.began + attempt.duration))
            if index > 0 { span.add("http.request.resend_count", index) }
            if let code = attempt.code { span.add("january_endpoint.january_code", code.rawValue) }
            span.endCall(status: attempt.status, error: attempt.error)
            tracer.export(span.bytes)
        }
    }

    // MARK: The request

    /// The response has been given.
    func ended(_ outcome: RequestOutcome) {
        guard context.isSampled else { return }
        var span = begin(
            tracer.shared.server, status: outcome.status, error: outcome.code?.rawValue, requestID: outcome.requestID,
            outcome.duration)
        if let code = outcome.code { span.add("january_endpoint.code", code.rawValue) }
        if !outcome.reason.isEmpty { span.add("january_endpoint.reason", outcome.reason) }
        if let id = outcome.januaryRequestID { span.add("january_endpoint.january_request_id", id) }
        if let verifier = outcome.verifier { span.add("january_endpoint.verifier", verifier) }
        if outcome.isUndelivered { span.add("january_endpoint.undelivered", true) }
        span.end(isError: outcome.status >= 500)
        tracer.export(span.bytes)
    }

    /// The same for the management listener, where the response is all there is.
    func ended(status: Int, requestID: RequestID) {
        guard context.isSampled else { return }
        var span = begin(
            tracer.shared.managementServer ?? tracer.shared.server, status: status, error: nil, requestID: requestID, nil)
        span.end(isError: status >= 500)
        tracer.export(span.bytes)
    }

    /// - Parameter error: the word for a failure, where there is a better one than its status.
    private func begin(
        _ server: SpanServer, status: Int, error: String?, requestID: RequestID, _ duration: Duration?
    ) -> SpanText {
        let end = duration.map { began + $0 } ?? tracer.now
        let word = method == .other ? "HTTP" : method.label
        var span = SpanText(
            context, parent: parent, hasRemoteParent: parent != 0, state: state, kind: .server,
            name: route.map { "\(word) \($0)" } ?? word, start: clock.wall(at: began), end: clock.wall(at: end))
        span.add("http.request.method", method.spanLabel)
        span.add("http.response.status_code", status)
        if let route { span.add("http.route", route) }
        // A path that is none of ours may be anything, a secret pasted into the wrong place included.
        span.add("url.path", route ?? "REDACTED")
        span.add("url.scheme", server.scheme)
        span.add("server.address", server.address)
        if let port = server.port { span.add("server.port", port) }
        span.add("network.protocol.version", isHTTP10 ? "1.0" : "1.1")
        if status >= 500 { span.add("error.type", error ?? String(status)) }
        span.add("january_endpoint.request_id", requestID.text)
        return span
    }
}

extension RequestMethod {
    /// `http.request.method`: what is no method of RFC 9110 or RFC 5789 is `_OTHER`.
    var spanLabel: String { self == .other ? "_OTHER" : label }
}

/// The fields of a request that goes on.
enum TraceFields {
    static func append(_ context: TraceContext, state: [UInt8] = [], to fields: inout FieldBlock) {
        var value: [UInt8] = []
        context.append(to: &value)
        do throws(FieldError) {
            try fields.append(.traceparent, bytes: value.span.bytes)
            // An empty one is not sent (section 3.3.1.1).
            if !state.isEmpty { try fields.append(.tracestate, bytes: state.span.bytes) }
        } catch {
            preconditionFailure("hexadecimal digits and checked printable ASCII are field values")
        }
    }
}

extension SpanText {
    /// A call to somebody else, up to its outcome.
    static func ofCall(
        _ context: TraceContext, parent: UInt64, state: [UInt8] = [], method: RequestMethod, origin: Origin, target: String,
        template: String?, start: WallInstant, end: WallInstant
    ) -> SpanText {
        let name = template.map { "\(method.spanLabel) \($0)" } ?? method.spanLabel
        var span = SpanText(
            context, parent: parent, hasRemoteParent: false, state: state, kind: .client, name: name, start: start, end: end)
        span.add("http.request.method", method.spanLabel)
        span.add("server.address", origin.host)
        span.add("server.port", origin.port)
        span.add("url.full", SpanURL.text(origin, target))
        if let template { span.add("url.template", template) }
        span.add("network.protocol.version", "1.1")
        return span
    }

    /// For who calls, every 4xx is an error, too.
    mutating func endCall(status: Int?, error: UpstreamError?) {
        if let status { add("http.response.status_code", status) }
        let type = error?.reason ?? status.flatMap { $0 >= 400 ? String($0) : nil }
        if let type { add("error.type", type) }
        self.end(isError: type != nil)
    }
}

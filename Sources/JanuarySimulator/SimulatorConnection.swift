import EventLoop
import HTTPMessage
import Primitives

/// One connection: reads a request, executes the steps of its answer, reads the next. Belongs to the server's loop.
///
/// Its own timer, because it never waits for two things at once: a step of an answer, or the end of an idle time.
final class SimulatorConnection: TimerNode, ByteStreamDelegate {
    private enum State {
        case head
        case body(RequestHead, BodyDecoder)
        case answering
        /// The rest of an answer is on its way to the kernel, then the connection is closed.
        case closing
        /// No more is said; waits for the client's end.
        case hanging
        case closed
    }

    private static let limits = HTTPLimits(bodyBytes: 1_048_576)
    /// Bytes of requests behind the one that is being answered.
    private static let maxBufferedBytes = 262_144

    private let number: Int
    private let stream: ByteStream
    private let loop: EventLoop
    private let simulator: Simulator
    private let server: SimulatorServer

    private var state = State.head
    private var input: [UInt8] = []
    private var parser = RequestHeadParser(limits: SimulatorConnection.limits)
    private var content: [UInt8] = []
    private var sentContinue = false
    private var peerEnded = false
    private var isParsing = false

    /// Of the answer in progress.
    private var arrival: SimulatorState.Arrival?
    private var isCommitted = false
    private var steps: [WireStep] = []
    private var nextStep = 0
    private var closes = false
    private var isHead = false
    private(set) var isHeld = false
    private(set) var servesControl = false
    private var idleClose: Fault.IdleClose?

    init(number: Int, stream: ByteStream, loop: EventLoop, simulator: Simulator, server: SimulatorServer) {
        self.number = number
        self.stream = stream
        self.loop = loop
        self.simulator = simulator
        self.server = server
    }

    // MARK: Stream

    func streamDidOpen(_ stream: ByteStream) {}

    func stream(_ stream: ByteStream, didReceive bytes: UnsafeRawBufferPointer) {
        switch state {
        case .head, .body:
            input.append(contentsOf: bytes)
            readRequests()
        case .answering:
            input.append(contentsOf: bytes)
            if input.count > Self.maxBufferedBytes { stream.pause() }
        case .closing, .hanging, .closed: break
        }
    }

    func streamDidEnd(_ stream: ByteStream) {
        peerEnded = true
        switch state {
        // A client that has only finished sending still gets its answer.
        case .answering where !isHeld: break
        case .closing where stream.pendingWriteBytes > 0: break
        case .head, .body, .answering, .hanging, .closing: close(reset: false)
        case .closed: break
        }
    }

    func streamDidDrain(_ stream: ByteStream) {
        if case .closing = state { close(reset: false) }
    }

    func stream(_ stream: ByteStream, didFail error: StreamError) { close(reset: true) }

    func close(reset: Bool) {
        if case .closed = state { return }
        state = .closed
        isHeld = false
        loop.cancel(self)
        stream.close(reset: reset)
        simulator.connectionClosed()
        server.forget(number)
    }

    // MARK: Requests

    /// Takes requests out of `input` while there are any. Not re-entered: an answer that is written at once comes back here.
    private func readRequests() {
        guard !isParsing else { return }
        isParsing = true
        defer { isParsing = false }
        do throws(HTTPParseError) {
            while true {
                switch state {
                case .head:
                    let bytes = input
                    guard !bytes.isEmpty, let parsed = try parser.parse(bytes.span.bytes) else { return }
                    loop.cancel(self)
                    idleClose = nil
                    parser.reset()
                    input.removeFirst(parsed.byteCount)
                    content = []
                    sentContinue = false
                    state = .body(parsed.head, BodyDecoder(framing: parsed.head.framing, limits: Self.limits))
                case .body(let head, var decoder):
                    let bytes = input
                    let progress = try decoder.decode(bytes.span.bytes, into: &content)
                    input.removeFirst(progress.consumed)
                    guard progress.isComplete else {
                        state = .body(head, decoder)
                        if head.expectsContinue && !sentContinue && content.isEmpty {
                            sentContinue = true
                            stream.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8))
                        }
                        return
                    }
                    answer(head)
                case .answering, .closing, .hanging, .closed: return
                }
            }
        } catch {
            refuse(error)
        }
    }

    private func refuse(_ error: HTTPParseError) {
        let code = error.status == 413 ? "payload_too_large" : "invalid_request"
        closes = true
        isHead = false
        send(.failure(error.status, code, "\(error.reason.rawValue) at byte \(error.offset)"), simulator.newRequestID())
    }

    private func answer(_ head: RequestHead) {
        state = .answering
        closes = !head.isPersistent
        isHead = head.method == .head
        let body = content
        content = []
        servesControl = head.target.pathBytes.starts(with: "/control/".utf8)
        if servesControl {
            let request = ControlRequest(method: head.method.text, target: head.target, body: body)
            return send(ControlRoutes.answer(request, simulator), simulator.newRequestID())
        }
        let arrival = simulator.arrive(head, body: body, connection: number)
        self.arrival = arrival
        isCommitted = false
        steps = arrival.fault.map(WirePlan.steps(before:)) ?? [.commit]
        nextStep = 0
        run()
    }

    /// An answer without a fault.
    private func send(_ answer: Answer, _ requestID: String) {
        var bytes: [UInt8] = []
        WirePlan.append(
            answer, requestID: requestID, date: simulator.dateText(), closes: closes, isHead: isHead, to: &bytes)
        steps = [.write(bytes), .end(closes ? .close : .next(idleClose: nil))]
        nextStep = 0
        state = .answering
        run()
    }

    // MARK: Steps

    private func run() {
        while case .answering = state, nextStep < steps.count {
            let step = steps[nextStep]
            nextStep += 1
            switch step {
            case .wait(let duration): return loop.schedule(self, after: duration)
            case .hold:
                isHeld = true
                return
            case .commit: commit()
            case .write(let bytes): stream.write(bytes)
            case .end(let ending): return end(ending)
            }
        }
    }

    private func commit() {
        guard let arrival else { return }
        isCommitted = true
        let (answer, date) = simulator.perform(arrival)
        steps = WirePlan.steps(
            after: arrival.fault ?? Fault(), answer, requestID: arrival.requestID, date: date, closes: closes, isHead: isHead)
        nextStep = 0
    }

    private func end(_ ending: WireStep.Ending) {
        if let arrival, !isCommitted { simulator.abandon(arrival) }
        arrival = nil
        steps = []
        switch ending {
        case .reset: close(reset: true)
        case .close:
            if peerEnded || stream.pendingWriteBytes == 0 { close(reset: false) } else { state = .closing }
        case .hang: state = .hanging
        case .next(let idle):
            if peerEnded { return close(reset: false) }
            state = .head
            idleClose = idle
            if let idle { loop.schedule(self, after: idle.after.lowerBound) }
            stream.resume()
            readRequests()
        }
    }

    func release() {
        guard isHeld else { return }
        isHeld = false
        run()
    }

    override func fire() {
        switch state {
        case .answering: run()
        case .head: if let idleClose { close(reset: idleClose.withReset) }
        case .body, .closing, .hanging, .closed: break
        }
    }
}

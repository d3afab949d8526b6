import HTTPMessage
import Primitives

@testable import HTTPClient

// What a hostile or broken upstream sends on a connection: one response or none, the same wherever it is cut, never a success out of
// an answer that was cut short, and never a connection kept that has bytes left over.

private struct Outcome: Equatable {
    var status: Int?
    var body: [UInt8] = []
    var isReusable = false
    var error: UpstreamError?
}

private func run(_ bytes: [UInt8], ends: [Int], method: Method, ended: Bool) -> Outcome {
    var machine = ExchangeStateMachine(method: method, limits: .standard, maxResponseBytes: 300)
    machine.requestBegins()
    machine.requestSent()
    var start = 0
    func outcome(_ step: ExchangeStateMachine.Step, isLast: Bool) -> Outcome? {
        switch step {
        case .needMore: return nil
        case .failed(let error): return Outcome(error: error)
        case .complete(let isReusable):
            guard let response = machine.takeResponse() else { return Outcome(error: .broken(.reset)) }
            require(response.body.count <= 300, "a body beyond its limit")
            require(response.status >= 200, "an informational response as the answer")
            // Whether bytes are left over shows with them: later they are bytes on an idle connection.
            return Outcome(status: response.status, body: response.body, isReusable: isReusable && isLast)
        }
    }
    for end in ends + [bytes.count] {
        let step = machine.received(bytes.span.bytes.extracting(start..<end))
        start = end
        if let done = outcome(step, isLast: end == bytes.count) { return done }
    }
    return ended ? outcome(machine.ended(), isLast: true) ?? Outcome() : Outcome()
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let method: Method = start[0] & 1 == 0 ? .post : .get
    let bytes = input(start + 1, count - 1)
    let whole = run(bytes, ends: [], method: method, ended: true)
    require(whole == run(bytes, ends: cuts(bytes), method: method, ended: true), "cut everywhere")
    for cut in someCuts(bytes) {
        require(whole == run(bytes, ends: [cut], method: method, ended: true), "cut at \(cut)")
    }
    // As far as it came and then nothing: the same answer as the whole, or none. Only a body until close is as long as it came: that one
    // is no answer before the end.
    for end in someCuts(bytes, 8) {
        let part = Array(bytes[..<end])
        let found = run(part, ends: [], method: method, ended: true)
        guard let status = found.status, run(part, ends: [], method: method, ended: false).status != nil else { continue }
        require(status == whole.status && found.body == whole.body, "cut short at \(end): \(found) \(whole)")
    }
    return 0
}

import HTTPMessage
import Primitives

@testable import HTTPServer

// A whole connection: the requests that are served, their contents and the refusal at the end are the same wherever it is cut. This is
// what keeps one message from being read as two.

private struct Served: Equatable {
    var requests: [String] = []
    var refusal: HTTPParseError.Reason?
}

private func run(_ bytes: [UInt8], ends: [Int]) -> Served {
    let limits = HTTPLimits(requestLineBytes: 200, fieldsBytes: 400, fieldLines: 8, bodyBytes: 64, chunkLineBytes: 32)
    var machine = ConnectionStateMachine()
    var served = Served()
    var content: [UInt8] = []
    var head: RequestHead?
    var start = 0

    func finish() {
        guard let done = head else { return }
        served.requests.append(
            "\(done.method.text) \(done.target.path) \(done.framing) \(done.isPersistent) \(text(content).utf8.count) \(content)")
        content = []
        head = nil
        machine.responded(closes: !done.isPersistent)
    }

    for end in ends + [bytes.count] {
        var steps = 0
        while start < end {
            steps += 1
            require(steps <= 2 * (end + 8), "no progress")
            let (step, consumed) = machine.receive(bytes.span.bytes.extracting(start..<end), limits: limits, content: &content)
            require(consumed <= end - start, "consumed more than there was")
            start += consumed
            switch step {
            case .needMore:
                require(consumed == 0, "took bytes and asked for more")
            case .head(let found):
                head = found
                if found.framing.exceeds(limits) {
                    served.refusal = .contentTooLarge
                    machine.responded(closes: true)
                } else if !machine.admit(found, limits: limits, keepsContent: true) {
                    finish()
                }
                continue
            case .contentProgress: require(consumed > 0, "progress without a byte")
            case .complete: finish()
            case .refuse(let error):
                served.refusal = error.reason
                machine.responded(closes: true)
            case .discarded: require(machine.isLingering, "thrown away in the middle")
            }
            if case .needMore = step { break }
        }
    }
    require(content.count <= limits.bodyBytes, "content beyond its limit")
    return served
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = input(start, count)
    let whole = run(bytes, ends: [])
    require(whole == run(bytes, ends: cuts(bytes)), "cut everywhere")
    for cut in someCuts(bytes) {
        let two = run(bytes, ends: [cut])
        require(whole == two, "cut at \(cut): \(whole) \(two)")
    }
    return 0
}

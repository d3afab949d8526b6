@testable import HTTPMessage
import Primitives

// A message body: content, end and verdict are the same wherever it is cut; what was decoded and is encoded again decodes to itself.
// The first byte chooses the framing and the limits.

private struct Outcome: Equatable {
    var content: [UInt8] = []
    var consumed = 0
    var isComplete = false
    var error: HTTPParseError?
}

private func decode(
    _ bytes: [UInt8], _ ranges: [Range<Int>], _ framing: BodyFraming, _ limits: HTTPLimits, discards: Bool = false
) -> Outcome {
    var decoder = BodyDecoder(framing: framing, limits: limits, discards: discards)
    var outcome = Outcome()
    for range in ranges where !outcome.isComplete {
        do throws(HTTPParseError) {
            let progress = try decoder.decode(bytes.span.bytes.extracting(range), into: &outcome.content)
            require(progress.consumed <= range.count, "consumed more than there was")
            require(progress.isComplete || progress.consumed == range.count, "stopped in the middle")
            outcome.consumed += progress.consumed
            outcome.isComplete = progress.isComplete
        } catch {
            outcome.error = error
            break
        }
    }
    require(decoder.contentCount <= limits.bodyBytes, "more content than the limit")
    require(outcome.isComplete == decoder.isComplete || outcome.error != nil, "complete or not")
    if outcome.error == nil {
        let end = try? decoder.finishAtEOF()
        // A body that was cut short is never a whole one.
        require((end == true) == (outcome.isComplete || framing == .untilClose), "end of the connection")
    }
    return outcome
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let choice = start[0]
    let bytes = input(start + 1, count - 1)
    let framing: BodyFraming =
        switch choice >> 6 {
        case 0, 1: .chunked
        case 2: .length(Int(choice & 0x1F))
        default: .untilClose
        }
    let limits =
        choice & 0x20 == 0 ? HTTPLimits.standard : HTTPLimits(fieldsBytes: 48, fieldLines: 2, bodyBytes: 24, chunkLineBytes: 12)
    let whole = decode(bytes, [0..<bytes.count], framing, limits)
    var cut = decode(bytes, bytes.indices.map { $0..<$0 + 1 }, framing, limits)
    // What was decoded in front of an error is not used; how much that is may depend on the cut.
    let hasError = whole.error != nil
    func compare(_ other: inout Outcome, _ how: String) {
        if hasError { (other.content, other.consumed) = (whole.content, whole.consumed) }
        require(other == whole, "\(how): \(other) \(whole)")
    }
    compare(&cut, "byte by byte")
    var some = decode(bytes, pieces(bytes), framing, limits)
    compare(&some, "in pieces")
    for place in someCuts(bytes) {
        var two = decode(bytes, [0..<place, place..<bytes.count], framing, limits)
        compare(&two, "cut at \(place)")
    }
    var discarded = decode(bytes, [0..<bytes.count], framing, limits, discards: true)
    require(discarded.content.isEmpty, "kept what was to be discarded")
    discarded.content = whole.content
    require(discarded == whole, "discarding")
    guard framing == .chunked, whole.isComplete else { return 0 }
    var written: [UInt8] = []
    for range in pieces(whole.content) { ChunkedEncoder.chunk(whole.content.span.bytes.extracting(range), to: &written) }
    ChunkedEncoder.end(to: &written)
    let again = decode(written, [0..<written.count], .chunked, .standard)
    require(again.content == whole.content && again.isComplete && again.consumed == written.count, "written again")
    return 0
}

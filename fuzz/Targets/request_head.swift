@testable import HTTPMessage
import Primitives

// A request head: the verdict does not depend on how the bytes were cut, and what is accepted reads the same when it is written again.

private struct Verdict: Equatable {
    var error: HTTPParseError?
    var byteCount = 0
    var method = ""
    var target = ""
    var fields: [String] = []
    var framing = BodyFraming.none
    var flags: [Bool] = []

    init(_ parsed: ParsedHead<RequestHead>) {
        let head = parsed.head
        byteCount = parsed.byteCount
        method = head.method.text
        target =
            "\(head.target.form) \(head.target.path)?\(head.target.queryBytes.map(text) ?? "-") \(head.target.authority.map(text) ?? "-")"
        head.fields.forEach { name, value in fields.append("\(text(name))=\(text(value))") }
        framing = head.framing
        flags = [head.isPersistent, head.expectsContinue, head.version == .http10]
    }

    init(_ error: HTTPParseError) { self.error = error }
}

private func verdict(_ bytes: [UInt8], _ limits: HTTPLimits) -> Verdict? {
    var parser = RequestHeadParser(limits: limits)
    do throws(HTTPParseError) { return try parser.parse(bytes.span.bytes).map(Verdict.init) } catch { return Verdict(error) }
}

/// The same bytes as they would arrive, piece by piece.
private func verdict(_ bytes: [UInt8], ends: [Int], _ limits: HTTPLimits) -> Verdict? {
    var parser = RequestHeadParser(limits: limits)
    for end in ends + [bytes.count] {
        do throws(HTTPParseError) {
            let parsed = try parser.parse(bytes.span.bytes.extracting(0..<end))
            if let parsed { return Verdict(parsed) }
        } catch {
            return Verdict(error)
        }
    }
    return nil
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = input(start, count)
    let limits =
        bytes[0] & 0x80 == 0
        ? HTTPLimits.standard
        : HTTPLimits(requestLineBytes: 40, fieldsBytes: 80, fieldLines: 3, bodyBytes: 10, chunkLineBytes: 8)
    let whole = verdict(bytes, limits)
    require(whole == verdict(bytes, ends: cuts(bytes), limits), "cut everywhere")
    for cut in someCuts(bytes) { require(whole == verdict(bytes, ends: [cut], limits), "cut at \(cut)") }
    guard let whole else { return 0 }
    if let error = whole.error {
        require((0...count).contains(error.offset), "offset \(error.offset) of \(count)")
        require([400, 414, 417, 431, 501, 505].contains(error.status), "status \(error.status)")
        return 0
    }
    require(whole.byteCount <= count, "length")
    // What follows does not change what was there, and nothing of it was needed.
    require(whole == verdict(Array(bytes[..<whole.byteCount]), limits), "without what follows")
    require(whole == verdict(bytes + [0, 13, 10], limits), "with more behind it")

    // Written again from its parts, it is the same request.
    var parser = RequestHeadParser(limits: limits)
    guard let head = try? parser.parse(bytes.span.bytes)?.head else { return 0 }
    require(head.fields.count <= limits.fieldLines, "number of fields")
    var written = Array(head.method.text.utf8) + [0x20]
    switch head.target.form {
    case .asterisk: written.append(0x2A)
    case .authority: written += head.target.authority ?? []
    case .absolute: written += Array("http://".utf8) + (head.target.authority ?? []) + head.target.pathBytes
    case .origin: written += head.target.pathBytes
    }
    if let query = head.target.queryBytes { written += [0x3F] + query }
    written += Array(head.version == .http10 ? " HTTP/1.0\r\n".utf8 : " HTTP/1.1\r\n".utf8)
    head.fields.forEach { name, value in written += name + [0x3A, 0x20] + value + [13, 10] }
    written += [13, 10]
    var again = verdict(written, HTTPLimits(fieldsBytes: 65536))
    again?.byteCount = whole.byteCount
    require(again == whole, "written again: \(text(written))")
    require(!head.fields.contains(.host) || head.fields.count(of: .host) == 1, "one Host")
    if case .length = head.framing { require(!head.fields.contains(.transferEncoding), "both framings") }
    return 0
}

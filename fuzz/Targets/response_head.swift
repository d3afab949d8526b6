@testable import HTTPMessage
import Primitives

// A response head of an upstream: cut anywhere it is the same, and its framing is one or an error for every method.

private struct Verdict: Equatable {
    var error: HTTPParseError?
    var byteCount = 0
    var status = 0
    var fields: [String] = []
    var isPersistent = false
    var framings: [String] = []

    init(_ parsed: ParsedHead<ResponseHead>) {
        byteCount = parsed.byteCount
        status = parsed.head.status
        isPersistent = parsed.head.isPersistent
        parsed.head.fields.forEach { name, value in fields.append("\(text(name))=\(text(value))") }
        for method in [Method.get, .head, .post, .connect] {
            do throws(HTTPParseError) {
                framings.append("\(try BodyFraming.ofResponse(parsed.head, to: method))")
            } catch {
                framings.append(error.reason.rawValue)
            }
        }
    }

    init(_ error: HTTPParseError) { self.error = error }
}

private func verdict(_ bytes: [UInt8], ends: [Int]) -> Verdict? {
    var parser = ResponseHeadParser(limits: .standard)
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
    let whole = verdict(bytes, ends: [])
    require(whole == verdict(bytes, ends: cuts(bytes)), "cut everywhere")
    for cut in someCuts(bytes) { require(whole == verdict(bytes, ends: [cut]), "cut at \(cut)") }
    guard let whole, whole.error == nil else { return 0 }
    require((100..<600).contains(whole.status), "status")
    require(whole == verdict(bytes + [0, 13, 10], ends: []), "with more behind it")
    require(whole == verdict(Array(bytes[..<whole.byteCount]), ends: []), "without what follows")
    if whole.framings[1] != BodyFraming.none.text, HTTPParseError.Reason(rawValue: whole.framings[1]) == nil {
        require(false, "content to HEAD: \(whole.framings[1])")
    }
    // Written again.
    var written = Array("HTTP/1.1 \(whole.status)\r\n".utf8)
    for field in whole.fields { written += Array(field.replacingFirstEquals().utf8) + [13, 10] }
    written += [13, 10]
    // Values that are no UTF-8 do not survive the way through text.
    guard whole.fields.joined().utf8.elementsEqual(whole.fields.joined().utf8), !whole.fields.joined().contains("\u{FFFD}") else {
        return 0
    }
    let again = verdict(written, ends: [])
    require(again?.fields == whole.fields && again?.status == whole.status, "written again: \(text(written))")
    return 0
}

extension BodyFraming { fileprivate var text: String { "\(self)" } }

extension String {
    /// A name is a token, which has no `=`, so the first one stands behind it.
    fileprivate func replacingFirstEquals() -> String {
        // By bytes: a character that combines with the `=` makes another one of it.
        guard let index = utf8.firstIndex(of: UInt8(ascii: "=")) else { return self }
        return String(self[..<index]) + ": " + String(self[utf8.index(after: index)...])
    }
}

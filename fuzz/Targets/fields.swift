@testable import HTTPMessage
import January
import Primitives

// A field section as a peer writes it: look-ups agree with a plain walk over the lines, lists with a plain split, and what is written
// into a block of our own reads the same. Dates and Retry-After besides.

private let names = ["connection", "accept-encoding", "x-request-id", "retry-after"]

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    dates(text(bytes))
    let message = Array("HTTP/1.1 200 OK\r\n".utf8) + bytes + [13, 10, 13, 10]
    var parser = ResponseHeadParser(limits: .standard)
    guard let parsed = try? parser.parse(message.span.bytes) else { return 0 }
    let fields = parsed.head.fields
    var lines: [(name: String, value: [UInt8])] = []
    fields.forEach { name, value in lines.append((text(name).lowercased(), Array(value))) }
    require(lines.count == fields.count, "number of lines")
    for line in lines {
        require(!line.value.contains { $0 == 13 || $0 == 10 || $0 == 0 }, "a line end in a value")
        require(
            ![0x20, 9].contains(line.value.first ?? 1) && ![0x20, 9].contains(line.value.last ?? 1), "white space around a value")
    }
    for name in names + lines.prefix(4).map(\.name) {
        guard let fieldName = FieldName(parsing: name) else { continue }
        let own = lines.filter { $0.name == fieldName.text }.map(\.value)
        require(fields.values(fieldName).map(Array.init) == own, "values of \(name)")
        require(fields.count(of: fieldName) == own.count && fields.contains(fieldName) == !own.isEmpty, "count of \(name)")
        require(fields.first(fieldName).map(Array.init) == own.first, "first of \(name)")
        if own.count != 1 { require(fields.string(fieldName) == nil, "one of several") }
        let members = own.flatMap { $0.split(separator: 0x2C).map { text($0).lowercased().strippedOfBlanks } }
        require(fields.listContains(fieldName, "close") == members.contains("close"), "list of \(name)")
    }
    var block = FieldBlock()
    var kept: [(String, [UInt8])] = []
    for line in lines {
        guard let name = FieldName(parsing: line.name) else { continue }
        do {
            try block.append(name, bytes: line.value.span.bytes)
            require(!name.isReserved, "a reserved name was written")
            kept.append((line.name, line.value))
        } catch {
            require(error == .reservedName && name.isReserved, "what was read can be written: \(error)")
        }
    }
    let again = Fields(block)
    var read: [(String, [UInt8])] = []
    again.forEach { name, value in read.append((text(name), Array(value))) }
    require(read.elementsEqual(kept) { $0.0 == $1.0 && $0.1 == $1.1 }, "written again")
    return 0
}

private func dates(_ value: String) {
    let now = WallInstant(secondsSinceEpoch: 1_796_000_000)
    // What is beyond the years that an instant can hold stands for its ends.
    if let date = HTTPDate.parse(value, now: now), abs(date.secondsSinceEpoch) < 9_223_372_036 {
        var written: [UInt8] = []
        HTTPDate.append(date, to: &written)
        require(written.count == 29, "length of a date")
        require(HTTPDate.parse(text(written), now: now) == date, "date written again: \(text(written))")
    }
    if let wait = RetryAfter.parse(value, now: now) {
        require((Duration.zero...RetryAfter.cap).contains(wait), "wait of \(wait)")
        require((0...30).contains(RetryAfter.wholeSeconds(wait)), "whole seconds")
    }
}

extension String {
    fileprivate var strippedOfBlanks: String {
        var text = self[...]
        while let first = text.utf8.first, first == 0x20 || first == 9 { text = Substring(text.utf8.dropFirst()) }
        while let last = text.utf8.last, last == 0x20 || last == 9 { text = Substring(text.utf8.dropLast()) }
        return String(text)
    }
}

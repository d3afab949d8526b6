import HTTPMessage
import Primitives

/// One element of `Forwarded` (RFC 7239 section 4): what one proxy says about the request it received.
struct ForwardedElement: Equatable {
    /// The values without their quotes.
    var forNode: ArraySlice<UInt8>?
    var host: ArraySlice<UInt8>?
    var scheme: ArraySlice<UInt8>?
    /// A parameter that stands twice, or something that is no parameter: the element says nothing.
    var isAmbiguous = false
    /// An empty list element.
    var isEmpty = true

    /// The elements of one field line.
    ///
    /// - Returns: `nil` if a quote opens where no value begins, or never closes: then nobody knows where elements end, and a client that
    ///   sent the first half could speak in the proxy's name.
    static func parse(_ line: ArraySlice<UInt8>) -> [ForwardedElement]? {
        var elements: [ForwardedElement] = []
        var element = ForwardedElement()
        var index = line.startIndex
        while index < line.endIndex {
            switch line[index] {
            case UInt8(ascii: ","):
                elements.append(element)
                element = ForwardedElement()
                index += 1
            case UInt8(ascii: ";"), ASCII.space, UInt8(ascii: "\t"):
                index += 1
            default:
                guard let end = element.readPair(line, index) else { return nil }
                index = end
            }
        }
        elements.append(element)
        return elements
    }

    /// `name=value`, up to `;`, `,` or the end. `nil`: a stray quote.
    private mutating func readPair(_ line: ArraySlice<UInt8>, _ start: Int) -> Int? {
        isEmpty = false
        var index = start
        while index < line.endIndex, !Self.isEnd(line[index]), line[index] != UInt8(ascii: "=") {
            if line[index] == Self.quote { return nil }
            index += 1
        }
        guard index < line.endIndex, line[index] == UInt8(ascii: "=") else {
            isAmbiguous = true
            return index
        }
        let name = line[start..<index]
        index += 1
        guard index < line.endIndex, line[index] == Self.quote else {
            let begin = index
            while index < line.endIndex, !Self.isEnd(line[index]) {
                if line[index] == Self.quote { return nil }
                index += 1
            }
            set(name, line[begin..<index].trimmingSpaces())
            return index
        }
        let begin = index + 1
        index = begin
        var isEscaped = false
        while index < line.endIndex, line[index] != Self.quote {
            // No address, host or scheme needs a quoted-pair; one is stepped over so that the end is found.
            if line[index] == UInt8(ascii: "\\") {
                isEscaped = true
                index += 1
            }
            index += 1
        }
        guard index < line.endIndex else { return nil }
        set(name, isEscaped ? [] : line[begin..<index])
        index += 1
        while index < line.endIndex, line[index] == ASCII.space || line[index] == UInt8(ascii: "\t") { index += 1 }
        guard index == line.endIndex || Self.isEnd(line[index]) else { return nil }
        return index
    }

    private static let quote = UInt8(ascii: "\"")
    private static func isEnd(_ byte: UInt8) -> Bool { byte == UInt8(ascii: ";") || byte == UInt8(ascii: ",") }

    /// Names are compared without case; a parameter must not occur twice in an element.
    private mutating func set(_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) {
        func isName(_ literal: StaticString) -> Bool {
            name.count == literal.utf8CodeUnitCount
                && zip(name, 0..<name.count).allSatisfy { ASCII.lowercased($0) == literal.utf8Start[$1] }
        }
        func put(_ slot: inout ArraySlice<UInt8>?) {
            if slot != nil { isAmbiguous = true }
            slot = value
        }
        if isName("for") {
            put(&forNode)
        } else if isName("host") {
            put(&host)
        } else if isName("proto") {
            put(&scheme)
        }
    }
}

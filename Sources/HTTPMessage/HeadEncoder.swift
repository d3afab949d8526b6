import Primitives

/// Writes heads into a `[UInt8]`. Nothing that could end a line early gets through: names are tokens by their type, values and
/// targets are checked. Call order: start-line, fields, ``end(to:)``.
package enum HeadEncoder {
    /// `HTTP/1.1 201 Created` CRLF. `status` has three digits.
    package static func statusLine(_ status: Int, to output: inout [UInt8]) {
        precondition((100..<1000).contains(status), "status code without three digits")
        let reason = Status.reasonPhrase(status)
        output.append(addingCapacity: reason.utf8CodeUnitCount + 15) { output in
            output.append("HTTP/1.1 ")
            output.append(decimal: status.magnitude)
            output.append(0x20)
            output.append(reason)
            output.append("\r\n")
        }
    }

    /// `POST /path HTTP/1.1` CRLF. The target is one of the forms of RFC 9112 section 3.2, printable ASCII without spaces.
    package static func requestLine(_ method: Method, target: String, to output: inout [UInt8]) throws(FieldError) {
        guard !target.isEmpty, isVisible(target) else { throw .invalidTarget }
        if case .other(let text) = method, Method(text) == nil { throw .invalidTarget }
        let method = method.text
        output.append(addingCapacity: method.utf8.count + target.utf8.count + 12) { output in
            output.append(method)
            output.append(0x20)
            output.append(target)
            output.append(" HTTP/1.1\r\n")
        }
    }

    /// Nothing is written when this throws. Framing fields are the caller's to write once: ``contentLength(_:to:)`` and ``chunked(to:)``.
    package static func field(_ name: FieldName, _ value: String, to output: inout [UInt8]) throws(FieldError) {
        guard value.utf8.allSatisfy(\.isFieldContent) else { throw .invalidValue }
        begin(name, &output)
        output.append(contentsOf: value.utf8)
        append("\r\n", to: &output)
    }

    package static func field(_ name: FieldName, bytes value: RawSpan, to output: inout [UInt8]) throws(FieldError) {
        guard value.firstControl(from: 0, to: value.byteCount) == value.byteCount else { throw .invalidValue }
        begin(name, &output)
        output.append(value)
        append("\r\n", to: &output)
    }

    /// A value from our own source; a control character in it stops the process.
    package static func field(_ name: FieldName, literal value: StaticString, to output: inout [UInt8]) {
        value.withUTF8Buffer { precondition($0.allSatisfy(\.isFieldContent), "control character in a field value") }
        begin(name, &output)
        append(value, to: &output)
        append("\r\n", to: &output)
    }

    package static func contentLength(_ count: Int, to output: inout [UInt8]) {
        output.append(addingCapacity: 38) { output in
            output.append("Content-Length: ")
            output.append(decimal: count.magnitude)
            output.append("\r\n")
        }
    }

    package static func chunked(to output: inout [UInt8]) { append("Transfer-Encoding: chunked\r\n", to: &output) }

    package static func connectionClose(to output: inout [UInt8]) { append("Connection: close\r\n", to: &output) }

    /// For HTTP/1.0 clients that asked for it (RFC 9112 section 9.3).
    package static func connectionKeepAlive(to output: inout [UInt8]) { append("Connection: keep-alive\r\n", to: &output) }

    package static func host(_ origin: Origin, to output: inout [UInt8]) {
        append("Host: ", to: &output)
        output.append(contentsOf: origin.authority.utf8)
        append("\r\n", to: &output)
    }

    /// The lines of a block as they are.
    package static func block(_ block: FieldBlock, to output: inout [UInt8]) { output.append(contentsOf: block.bytes) }

    /// The empty line.
    package static func end(to output: inout [UInt8]) { append("\r\n", to: &output) }

    /// The whole head of a request to an origin: request-line, `Host`, the block, `Content-Length` where the method or the content
    /// calls for one (RFC 9110 section 8.6), the empty line. ``UpstreamRequest/body`` goes out right behind it.
    package static func request(_ request: UpstreamRequest, to output: inout [UInt8]) throws(FieldError) {
        try requestLine(request.method, target: request.target, to: &output)
        host(request.origin, to: &output)
        block(request.fields, to: &output)
        switch request.method {
        case .post, .put, .patch: contentLength(request.body.count, to: &output)
        case .get, .head, .delete, .connect, .options, .trace, .other:
            if !request.body.isEmpty { contentLength(request.body.count, to: &output) }
        }
        end(to: &output)
    }

    /// VCHAR only. As memory where the text is contiguous, which every text of ours is.
    private static func isVisible(_ text: String) -> Bool {
        let isVisible = text.utf8.withContiguousStorageIfAvailable { bytes in
            var spoiled: UInt8 = 0
            for byte in bytes { spoiled |= byte &- 0x21 < 0x5E ? 0 : 1 }
            return spoiled == 0
        }
        return isVisible ?? text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }

    private static func begin(_ name: FieldName, _ output: inout [UInt8]) {
        output.append(contentsOf: name.bytes)
        output.append(UInt8(ascii: ":"))
        output.append(0x20)
    }

    private static func append(_ text: StaticString, to output: inout [UInt8]) {
        text.withUTF8Buffer { output.append(contentsOf: $0) }
    }
}

/// The chunked transfer coding on the way out (RFC 9112 section 7.1).
package enum ChunkedEncoder {
    /// One chunk. An empty one would end the body and is left out.
    package static func chunk(_ content: RawSpan, to output: inout [UInt8]) {
        guard content.byteCount > 0 else { return }
        output.append(contentsOf: String(content.byteCount, radix: 16).utf8)
        output.append(contentsOf: [0x0D, 0x0A])
        output.append(content)
        output.append(contentsOf: [0x0D, 0x0A])
    }

    /// The last chunk and an empty trailer section.
    package static func end(to output: inout [UInt8]) {
        output.append(contentsOf: [UInt8(ascii: "0"), 0x0D, 0x0A, 0x0D, 0x0A])
    }
}

extension Array where Element == UInt8 {
    /// In decimal, without a text in between.
    package mutating func appendDecimal(_ value: Int) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(addingCapacity: 20) { $0.append(decimal: value.magnitude) }
    }
}

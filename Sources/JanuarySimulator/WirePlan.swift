import Primitives

/// One thing the transport does for a request, in order. Pure data: a test compares plans, the transport only executes them.
package enum WireStep: Sendable, Equatable {
    case wait(Duration)
    /// Until ``Simulator/release()``.
    case hold
    /// January's work; the steps of its answer follow in place of this one.
    case commit
    case write([UInt8])
    case end(Ending)

    package enum Ending: Sendable, Equatable {
        /// The next request may come.
        case next(idleClose: Fault.IdleClose?)
        case close
        case reset
        /// Nothing more is written or read; the client gives up.
        case hang
    }
}

/// From a fault to steps, and from an answer to bytes.
package enum WirePlan {
    /// What happens from the complete request on. Ends with `commit` or with `end`.
    package static func steps(before fault: Fault) -> [WireStep] {
        var steps: [WireStep] = []
        if fault.delayBeforeCommit > .zero { steps.append(.wait(fault.delayBeforeCommit)) }
        switch fault.disruption {
        case .resetBeforeCommit: steps.append(.end(.reset))
        case .closeBeforeCommit: steps.append(.end(.close))
        case .hangBeforeCommit: steps.append(.end(.hang))
        case .holdBeforeCommit: steps += [.hold, .commit]
        case .resetAfterCommit, .closeAfterCommit, .hangAfterCommit, .holdAfterCommit, nil: steps.append(.commit)
        }
        return steps
    }

    /// What happens from January's work on.
    ///
    /// - Parameters:
    ///   - closes: the client asked for the end of the connection, or speaks HTTP/1.0.
    ///   - isHead: the request was a HEAD: no content.
    package static func steps(
        after fault: Fault, _ answer: Answer, requestID: String, date: String, closes: Bool, isHead: Bool
    ) -> [WireStep] {
        var steps: [WireStep] = []
        if fault.delay > .zero { steps.append(.wait(fault.delay)) }
        switch fault.disruption {
        case .resetAfterCommit: return steps + [.end(.reset)]
        case .closeAfterCommit: return steps + [.end(.close)]
        case .hangAfterCommit: return steps + [.end(.hang)]
        case .holdAfterCommit: steps.append(.hold)
        case .resetBeforeCommit, .closeBeforeCommit, .hangBeforeCommit, .holdBeforeCommit, nil: break
        }
        let wire = fault.wire
        let endsConnection = closes || wire.connectionClose || wire.http10 || wire.untilClose
        var bytes: [UInt8]
        if let raw = wire.raw {
            bytes = raw
        } else {
            bytes = []
            for status in wire.informational {
                bytes.append(contentsOf: "HTTP/1.1 \(status) \(reason(status))\r\nX-Interim: yes\r\n\r\n".utf8)
            }
            append(answer, wire, requestID: requestID, date: date, closes: endsConnection, isHead: isHead, to: &bytes)
            bytes.append(contentsOf: wire.extraBytesAfter)
        }
        var ending = endsConnection ? WireStep.Ending.close : .next(idleClose: fault.idleClose)
        if let cut = wire.truncateAt {
            bytes = Array(bytes.prefix(max(0, cut)))
            ending = wire.truncateWithReset ? .reset : .close
        }
        if let drip = wire.drip {
            var start = 0
            while start < bytes.count {
                let end = min(start + drip.bytes, bytes.count)
                if start > 0 { steps.append(.wait(drip.every)) }
                steps.append(.write(Array(bytes[start..<end])))
                start = end
            }
        } else if !bytes.isEmpty {
            steps.append(.write(bytes))
        }
        return steps + [.end(ending)]
    }

    /// The bytes of one complete answer.
    package static func append(
        _ answer: Answer, _ wire: Fault.Wire = Fault.Wire(), requestID: String, date: String, closes: Bool, isHead: Bool,
        to bytes: inout [UInt8]
    ) {
        var content = answer.body
        bytes.reserveCapacity(bytes.count + content.count + 320)
        func field(_ name: StaticString, _ value: String) {
            name.withUTF8Buffer { bytes.append(contentsOf: $0) }
            bytes.append(contentsOf: ": ".utf8)
            bytes.append(contentsOf: value.utf8)
            bytes.append(contentsOf: "\r\n".utf8)
        }
        bytes.append(contentsOf: (wire.http10 ? "HTTP/1.0 " : "HTTP/1.1 ").utf8)
        bytes.append(contentsOf: String(answer.status).utf8)
        bytes.append(UInt8(ascii: " "))
        bytes.append(contentsOf: reason(answer.status).utf8)
        bytes.append(contentsOf: "\r\n".utf8)
        field("Date", date)
        field("Content-Type", answer.contentType)
        field("X-Request-Id", requestID)
        if let retryAfter = answer.retryAfter { field("Retry-After", retryAfter) }
        if !answer.allow.isEmpty { field("Allow", answer.allow.joined(separator: ", ")) }
        if let location = answer.location { field("Location", location) }
        for line in answer.fieldLines + wire.extraFieldLines {
            bytes.append(contentsOf: line.utf8)
            bytes.append(contentsOf: "\r\n".utf8)
        }
        if wire.gzip {
            field("Content-Encoding", "gzip")
            content = GzipWriter.stored(content)
        }
        // RFC 9110 section 6.4.1: these never have content.
        let hasContent = answer.status != 204 && answer.status != 304
        if wire.chunked {
            field("Transfer-Encoding", "chunked")
        } else if !wire.untilClose && hasContent {
            field("Content-Length", String(content.count + wire.lengthOffset))
        }
        if closes { field("Connection", "close") }
        bytes.append(contentsOf: "\r\n".utf8)
        guard hasContent, !isHead else { return }
        if wire.chunked {
            appendChunks(content, to: &bytes)
        } else {
            bytes.append(contentsOf: content)
        }
    }

    /// RFC 9112 section 7.1, in chunks small enough that every answer has several.
    private static func appendChunks(_ content: [UInt8], to bytes: inout [UInt8]) {
        var start = 0
        while start < content.count {
            let end = min(start + 61, content.count)
            bytes.append(contentsOf: String(end - start, radix: 16).utf8)
            bytes.append(contentsOf: "\r\n".utf8)
            bytes.append(contentsOf: content[start..<end])
            bytes.append(contentsOf: "\r\n".utf8)
            start = end
        }
        bytes.append(contentsOf: "0\r\n\r\n".utf8)
    }

    private static func reason(_ status: Int) -> String {
        switch status {
        case 100: "Continue"
        case 103: "Early Hints"
        case 200: "OK"
        case 201: "Created"
        case 204: "No Content"
        case 302: "Found"
        case 307: "Temporary Redirect"
        case 308: "Permanent Redirect"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 413: "Content Too Large"
        case 429: "Too Many Requests"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        default: "Status"
        }
    }
}

/// gzip (RFC 1952) around stored blocks (RFC 1951 section 3.2.4): the coding, without a compressor.
enum GzipWriter {
    static func stored(_ content: [UInt8]) -> [UInt8] {
        // No name, no time, unknown system.
        var bytes: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]
        var start = 0
        repeat {
            let end = min(start + 65_535, content.count)
            let count = UInt16(end - start)
            bytes.append(end == content.count ? 1 : 0)
            append(count, to: &bytes)
            append(~count, to: &bytes)
            bytes.append(contentsOf: content[start..<end])
            start = end
        } while start < content.count
        append(checksum(content), to: &bytes)
        append(UInt32(truncatingIfNeeded: content.count), to: &bytes)
        return bytes
    }

    private static func append(_ value: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// CRC-32 of RFC 1952 section 8, bit by bit: nobody waits for it.
    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        var value: UInt32 = ~0
        for byte in bytes {
            value ^= UInt32(byte)
            for _ in 0..<8 { value = value & 1 == 1 ? (value >> 1) ^ 0xEDB8_8320 : value >> 1 }
        }
        return ~value
    }
}

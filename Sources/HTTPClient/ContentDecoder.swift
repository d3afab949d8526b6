import CZlib
import HTTPMessage

/// Undoes the content coding of a response (RFC 9110 section 8.4). We ask for none, but a server or something before it may use gzip
/// all the same.
enum ContentDecoder {
    enum Failure: Error, Equatable {
        /// A coding other than gzip, more than one, or bytes that are not whole and valid gzip.
        case undecodable
        case tooLarge
    }

    /// - Returns: the content without coding; `body` itself when there was none.
    static func decode(_ body: [UInt8], fields: Fields, maxBytes: Int) throws(Failure) -> [UInt8] {
        guard fields.contains(.contentEncoding), !body.isEmpty else { return body }
        var isGzip = false
        for value in fields.values(.contentEncoding) {
            for coding in value.split(separator: UInt8(ascii: ",")) {
                let name = String(decoding: coding, as: UTF8.self).lowercased().trimming(" \t")
                switch name {
                case "identity", "": continue
                case "gzip" where !isGzip, "x-gzip" where !isGzip: isGzip = true
                default: throw .undecodable
                }
            }
        }
        return isGzip ? try gunzip(body, maxBytes: maxBytes) : body
    }

    /// One or more gzip members (RFC 1952 section 2.2), each with its check sum; anything behind them is an error.
    static func gunzip(_ body: [UInt8], maxBytes: Int) throws(Failure) -> [UInt8] {
        var stream = z_stream()
        // 15: the largest window; +16: gzip only.
        guard january_inflate_init2(&stream, 15 + 16) == Z_OK else { throw .undecodable }
        defer { inflateEnd(&stream) }
        var content: [UInt8] = []
        let outcome = body.withUnsafeBufferPointer { input -> Failure? in
            // zlib does not write to its input; the pointer is not const for historical reasons.
            stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
            stream.avail_in = UInt32(clamping: input.count)
            return inflateAll(&stream, into: &content, maxBytes: maxBytes)
        }
        if let outcome { throw outcome }
        return content
    }

    private static func inflateAll(_ stream: inout z_stream, into content: inout [UInt8], maxBytes: Int) -> Failure? {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 16384) { piece in
            while true {
                stream.next_out = piece.baseAddress
                stream.avail_out = UInt32(piece.count)
                let result = inflate(&stream, Z_NO_FLUSH)
                let produced = piece.count - Int(stream.avail_out)
                // Looked at before anything is kept: a small body can stand for gigabytes.
                guard content.count + produced <= maxBytes else { return .tooLarge }
                content.append(contentsOf: UnsafeBufferPointer(rebasing: piece[..<produced]))
                switch result {
                case Z_OK: continue
                case Z_STREAM_END:
                    if stream.avail_in == 0 { return nil }
                    guard inflateReset(&stream) == Z_OK else { return .undecodable }
                default: return .undecodable
                }
            }
        }
    }
}

extension String {
    fileprivate func trimming(_ set: String) -> Substring {
        var text = self[...]
        while let first = text.first, set.contains(first) { text.removeFirst() }
        while let last = text.last, set.contains(last) { text.removeLast() }
        return text
    }
}

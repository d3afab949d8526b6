import CZlib
import HTTPMessage
import Primitives

/// gzip for the metrics page (RFC 1952), by zlib. Never for a token: what is secret is not compressed beside what a caller sent.
enum Gzip {
    /// `Accept-Encoding` names gzip with a weight above zero (RFC 9110 section 12.5.3). `*` alone does not ask for it.
    static func isAccepted(_ fields: Fields) -> Bool {
        for value in fields.values(.acceptEncoding) {
            for member in value.split(separator: UInt8(ascii: ",")) {
                let parts = member.split(separator: UInt8(ascii: ";")).map { $0.filter { $0 != 0x20 && $0 != 0x09 } }
                guard let coding = parts.first, ASCII.equalIgnoringCase(coding, "gzip".utf8) else { continue }
                return !parts.dropFirst().contains { weight in
                    ASCII.equalIgnoringCase(weight.prefix(2), "q=".utf8)
                        && weight.dropFirst(2).allSatisfy { "0.".utf8.contains($0) }
                }
            }
        }
        return false
    }

    /// `nil` when zlib has no memory: then the plain bytes are sent.
    static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        var stream = z_stream()
        // 15: the largest window; +16: with the header of gzip. Level 1: pages are small and asked for often.
        guard january_deflate_init2(&stream, 1, 15 + 16) == Z_OK else { return nil }
        defer { deflateEnd(&stream) }
        let bound = Int(deflateBound(&stream, uLong(bytes.count))) + 32
        var isComplete = false
        let compressed = bytes.withUnsafeBufferPointer { input in
            [UInt8](unsafeUninitializedCapacity: bound) { output, count in
                // zlib does not write to its input; the pointer is not const for historical reasons.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = UInt32(clamping: input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(clamping: output.count)
                isComplete = deflate(&stream, Z_FINISH) == Z_STREAM_END
                count = output.count - Int(stream.avail_out)
            }
        }
        return isComplete ? compressed : nil
    }
}

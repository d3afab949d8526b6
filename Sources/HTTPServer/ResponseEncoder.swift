import HTTPMessage
import Primitives

/// Puts a response on the wire: status-line, the handler's fields, `Date`, framing, `Connection`. One per loop.
struct ResponseEncoder {
    /// A buffer that had to grow over this is given back.
    private static let keptBytes = 64 * 1024

    private var date = DateCache()
    /// The last response: one buffer for the loop, because each response is written before the next one is made.
    private(set) var bytes: [UInt8] = []

    mutating func encode(_ response: ServerResponse, to exchange: ServerExchange?, closes: Bool, wall: WallInstant) {
        if bytes.capacity > Self.keptBytes { bytes = [] } else { bytes.removeAll(keepingCapacity: true) }
        bytes.reserveCapacity(response.fields.count + response.content.count + 192)
        HeadEncoder.statusLine(response.status, to: &bytes)
        bytes.append(contentsOf: response.fields)
        date.appendLine(wall, to: &bytes)
        // RFC 9110 section 8.6: no Content-Length with 204.
        if response.status != 204 { HeadEncoder.contentLength(response.content.count, to: &bytes) }
        if closes {
            HeadEncoder.connectionClose(to: &bytes)
        } else if case .http10? = exchange?.head.version {
            HeadEncoder.connectionKeepAlive(to: &bytes)
        }
        HeadEncoder.end(to: &bytes)
        if case .head? = exchange?.head.method { return }
        if response.status != 204 { bytes.append(contentsOf: response.content) }
    }
}

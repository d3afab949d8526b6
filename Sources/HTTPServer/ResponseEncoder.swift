import HTTPMessage
import Primitives

/// Puts a response on the wire: status-line, the handler's fields, `Date`, framing, `Connection`. One per loop.
struct ResponseEncoder {
    private var date = DateCache()

    mutating func encode(_ response: ServerResponse, to exchange: ServerExchange?, closes: Bool, wall: any TimeSource) -> [UInt8]
    {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(response.fields.count + response.content.count + 192)
        HeadEncoder.statusLine(response.status, to: &bytes)
        bytes.append(contentsOf: response.fields)
        date.appendLine(wall.wall(), to: &bytes)
        // RFC 9110 section 8.6: no Content-Length with 204.
        if response.status != 204 { HeadEncoder.contentLength(response.content.count, to: &bytes) }
        if closes {
            HeadEncoder.connectionClose(to: &bytes)
        } else if exchange?.head.version == .http10 {
            HeadEncoder.connectionKeepAlive(to: &bytes)
        }
        HeadEncoder.end(to: &bytes)
        if exchange?.head.method != .head && response.status != 204 { bytes.append(contentsOf: response.content) }
        return bytes
    }
}

import EventLoop
import HTTPMessage
import Primitives

/// What answers the requests of one loop. All calls come on that loop.
package protocol RequestHandler: AnyObject {
    /// The head is complete: refuse by the head alone, or have the content read. A refusal is sent when the content has been read too
    /// (a malformed message is always 400), and at once where the client waits for a 100 or announces too much.
    func admit(_ exchange: ServerExchange) -> Admission

    /// The whole message has been read. Exactly one ``ServerExchange/respond(_:)`` must follow, now or later.
    func handle(_ exchange: ServerExchange)

    /// The answer to what never became a request; the connection closes behind it.
    func refuse(_ refusal: RequestRefusal, from peer: SocketAddress) -> ServerResponse
}

package enum Admission {
    /// Read the content; keep it for ``ServerExchange/content``, or throw it away as it comes.
    case read(keepContent: Bool)
    case answer(ServerResponse)
}

package enum RequestRefusal: Sendable, Equatable {
    case malformed(HTTPParseError)
    /// A head or content that did not come in time: 408.
    case timedOut
    /// HTTP in the clear where the listener speaks HTTPS. The answer is in the clear, too.
    case unencrypted
}

/// A response before framing: the server adds `Date`, `Content-Length` and `Connection`.
package struct ServerResponse: Sendable {
    package var status: Int
    /// Field lines, each with its CRLF, made by ``HeadEncoder`` or ``FieldBlock`` so that no value can break out of its line.
    package var fields: [UInt8]
    package var content: [UInt8]
    /// Closes the connection behind this response.
    package var closes: Bool

    package init(status: Int, fields: [UInt8] = [], content: [UInt8] = [], closes: Bool = false) {
        self.status = status
        self.fields = fields
        self.content = content
        self.closes = closes
    }
}

/// One request and its one response. Belongs to the loop of its connection; it may outlive the connection, then an answer goes nowhere.
package final class ServerExchange {
    package let head: RequestHead
    package let peer: SocketAddress
    /// When the last byte of the head was there: the budget of the request runs from here.
    package let headCompletedAt: MonotonicInstant
    /// Empty unless the handler asked to keep it.
    package internal(set) var content: [UInt8] = []
    /// For the handler: who asks, as it found out when it admitted the request.
    package var principal: String?
    /// For the handler: told of the response when it is given, once.
    package var onResponse: ((ServerResponse) -> Void)?
    var keepsContent = false
    var pendingAnswer: ServerResponse?
    /// Cut when the response is given or the connection is closed, whichever comes first: until then both hold each other.
    var connection: ServerConnection?
    /// The end of the peer's sending that came before the request was handed on is a half-close: the client still reads.
    var endedBeforeDispatch = false

    init(head: RequestHead, peer: SocketAddress, headCompletedAt: MonotonicInstant, connection: ServerConnection) {
        self.head = head
        self.peer = peer
        self.headCompletedAt = headCompletedAt
        self.connection = connection
    }

    /// The client has hung up since the request was complete: whatever is answered now will not arrive.
    package var clientIsGone: Bool {
        connection?.clientIsGone(endedBefore: endedBeforeDispatch) ?? true
    }

    /// Sends the response, once. Returns whether there was still a connection to give it to.
    @discardableResult
    package func respond(_ response: ServerResponse) -> Bool {
        if let onResponse {
            self.onResponse = nil
            onResponse(response)
        }
        guard let connection else { return false }
        self.connection = nil
        return connection.respond(response, to: self)
    }
}

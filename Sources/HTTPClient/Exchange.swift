import EventLoop
import HTTPMessage
import Primitives

/// One request from ``HTTPClient/send(_:deadline:beforeSend:completion:)`` to its completion: its own deadline timer. Used again for
/// later requests of the same client.
final class Exchange: TimerNode, Equatable {
    enum State {
        case unused
        /// In line for a connection.
        case waiting(OriginPool)
        case active(ClientConnection)
    }

    unowned let client: HTTPClient
    var state = State.unused
    var request: UpstreamRequest?
    var deadline = MonotonicInstant.distantFuture
    var beforeSend: (() -> Bool)?
    var completion: ((Result<UpstreamResponse, UpstreamError>) -> Void)?
    /// The one retry is used up: from now on only a fresh connection will do.
    var isRetry = false

    init(client: HTTPClient) {
        self.client = client
        super.init()
    }

    override func fire() { client.deadlinePassed(self) }

    /// Until when it may wait for a connection.
    var waitsUntil: MonotonicInstant {
        guard let sendBy = request?.sendBy else { return deadline }
        return min(sendBy, deadline)
    }

    static func == (left: Exchange, right: Exchange) -> Bool { left === right }
}

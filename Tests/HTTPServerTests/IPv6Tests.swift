import EventLoop
import TestSupport
import Testing

struct IPv6Tests {
    /// `[::]` takes IPv4 too, `[::1]` does not.
    @Test(arguments: [("[::]:0", true), ("[::1]:0", false)])
    func theWildcardTakesIPv4Too(address: String, takesIPv4: Bool) async throws {
        let socket = try ListeningSocket.bind(try #require(SocketAddress(address)))
        let port = try #require(socket.address.port)
        let connected = try? RawClient(port: port)
        #expect((connected != nil) == takesIPv4)
    }
}

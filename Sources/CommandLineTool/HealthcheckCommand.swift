import EventLoop
import Primitives
import TokenEndpoint

/// `healthcheck`: asks the running server whether it is ready, for images without curl.
enum HealthcheckCommand {
    /// For everything: connecting, asking, the answer.
    static let limit = Duration.seconds(5)

    static func run(_ invocation: Invocation) -> ExitCode {
        let console = invocation.console
        let loaded = LoadedConfiguration(invocation)
        guard let config = loaded.config else { return loaded.refuse(console) }
        guard let address = config.management.address?.socketAddress else {
            console.complain(
                "management.listen is off, so there is no /readyz to ask; GET /healthz on the public listener says whether the server is up"
            )
            return .failed
        }
        if address.port == 0 {
            console.complain("management.listen has no fixed port: there is nobody to ask")
            return .failed
        }
        let answer = HealthProbe.ask(addresses(for: address), within: limit)
        if case .ready = answer {
            console.print("ready")
            return .ok
        }
        console.complain("\(address): \(answer)")
        return .failed
    }

    /// Where a server that listens there is reached from the same machine.
    static func addresses(for address: SocketAddress) -> [SocketAddress] {
        guard case .ip(let ip, let port) = address, ip.isWildcard else { return [address] }
        let v4 = SocketAddress.ip(.v4(0x7F00_0001), port: port)
        // `[::]` takes IPv4 too, and a container may have no IPv6 loopback.
        if case .v6 = ip { return [.ip(.v6(0, 1, zone: 0), port: port), v4] }
        return [v4]
    }
}

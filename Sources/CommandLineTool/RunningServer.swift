import EventLoop
import TokenEndpoint

/// The server that runs with the same configuration, as commands reach it: at `management.listen`.
enum RunningServer {
    /// `nil` where there is nobody to ask; the console says why.
    static func address(_ config: RootConfig, _ console: any Console) -> SocketAddress? {
        if config.management.address?.isInherited == true {
            console.complain("management.listen is systemd, so its address is not known here: there is nobody to ask")
            return nil
        }
        guard let address = config.management.address?.socketAddress else {
            console.complain(
                "management.listen is off, so there is nobody to ask; GET /healthz on the public listener says whether the server is up"
            )
            return nil
        }
        if address.port == 0 {
            console.complain("management.listen has no fixed port: there is nobody to ask")
            return nil
        }
        return address
    }

    /// Where a server that listens there is reached from the same machine.
    static func addresses(for address: SocketAddress) -> [SocketAddress] {
        guard case .ip(let ip, let port) = address, ip.isWildcard else { return [address] }
        let v4 = SocketAddress.ip(.v4(0x7F00_0001), port: port)
        // `[::]` takes IPv4 too, and a container may have no IPv6 loopback.
        if case .v6 = ip { return [.ip(.v6(0, 1, zone: 0), port: port), v4] }
        return [v4]
    }

    /// What somebody answered, fit for a terminal.
    static func printable(_ text: String) -> String {
        String(text.unicodeScalars.filter { (0x20..<0x7F).contains($0.value) }.prefix(500).map(Character.init))
    }
}

import EventLoop
import Primitives

/// How many connections each address has open, over all loops: for ``ServerConfig/maxConnectionsPerAddress``.
///
/// An IPv6 address counts as its /64, which is what one subscriber gets; an IPv4-mapped one as the IPv4 address. Peers that speak for
/// many are not counted: Unix sockets, and what the configuration names as proxies. Holds one entry per address with an open
/// connection, so at most `max_connections` of them.
final class AddressCounter: Sendable {
    private typealias Shard = [IPAddress: Int32]

    private static let shardCount = 16
    private let shards: [Lock<Shard>]
    private let limit: Int32
    private let exempt: [AddressRange]

    init(limit: Int, exempt: [AddressRange]) {
        self.limit = Int32(clamping: limit)
        self.exempt = exempt
        shards = (0..<Self.shardCount).map { _ in Lock([:]) }
    }

    /// The address that is counted for a peer; `nil`: none.
    private func key(_ peer: SocketAddress) -> IPAddress? {
        guard let address = peer.ip?.unmapped, !exempt.contains(where: { $0.contains(address) }) else { return nil }
        switch address {
        case .v4: return address
        case .v6(let high, _, _): return .v6(high, 0, zone: 0)
        }
    }

    private func shard(_ key: IPAddress) -> Lock<Shard> { shards[Int(UInt(bitPattern: key.hashValue) % UInt(Self.shardCount))] }

    /// Counts one connection of the peer, unless it has as many as it may.
    func enter(_ peer: SocketAddress) -> Bool {
        guard let key = key(peer) else { return true }
        return shard(key).withLock { counts in
            let count = counts[key, default: 0]
            guard count < limit else { return false }
            counts[key] = count + 1
            return true
        }
    }

    /// For every ``enter(_:)`` that was true, once.
    func leave(_ peer: SocketAddress) {
        guard let key = key(peer) else { return }
        shard(key).withLock { counts in
            guard let count = counts[key] else { return }
            counts[key] = count > 1 ? count - 1 : nil
        }
    }

    /// Addresses that have a connection.
    var addressCount: Int { shards.reduce(0) { $0 + $1.withLock(\.count) } }
}

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
    private let rules: Lock<(limit: Int32, exempt: [AddressRange])>

    enum Entry {
        /// To be given back by ``leave(_:)``.
        case counted
        case exempt
        case refused
    }

    init(limit: Int, exempt: [AddressRange]) {
        rules = Lock((Int32(clamping: limit), exempt))
        shards = (0..<Self.shardCount).map { _ in Lock([:]) }
    }

    /// Connections that are open stay, and stay counted.
    func replace(limit: Int, exempt: [AddressRange]) { rules.withLock { $0 = (Int32(clamping: limit), exempt) } }

    /// The address that is counted for a peer; `nil`: none.
    private func key(_ peer: SocketAddress) -> IPAddress? {
        guard let address = peer.ip?.unmapped else { return nil }
        switch address {
        case .v4: return address
        case .v6(let high, _, _): return .v6(high, 0, zone: 0)
        }
    }

    private func shard(_ key: IPAddress) -> Lock<Shard> { shards[Int(UInt(bitPattern: key.hashValue) % UInt(Self.shardCount))] }

    /// Counts one connection of the peer, unless it has as many as it may.
    func enter(_ peer: SocketAddress) -> Entry {
        let (limit, exempt) = rules.withLock { $0 }
        guard let key = key(peer), let address = peer.ip?.unmapped, !exempt.contains(where: { $0.contains(address) }) else {
            return .exempt
        }
        return shard(key).withLock { counts in
            let count = counts[key, default: 0]
            guard count < limit else { return .refused }
            counts[key] = count + 1
            return .counted
        }
    }

    /// For every ``enter(_:)`` that counted, once.
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

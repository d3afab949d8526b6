import EventLoop
import GCRA
import Primitives

/// Wrong management tokens cost their address: so many a minute are answered as wrong, further ones are not looked at any closer.
/// A right token is never held back, so nobody can lock an operator out.
///
/// Belongs to one loop. Bounded: when the table is full of addresses that have something left to wait for, the one that has least is
/// forgotten.
struct WrongTokens {
    static let rule = GCRARule(requests: 10, periodNanoseconds: 60_000_000_000, burst: 10)
    static let maxAddresses = 4096

    /// An IPv6 address counts as its /64, which is what one subscriber has. All peers of a Unix socket are one.
    private enum Key: Hashable {
        case v4(UInt32)
        case v6(UInt64)
        case local

        init(_ peer: SocketAddress) {
            switch peer.ip?.unmapped {
            case .v4(let bits)?: self = .v4(bits)
            case .v6(let high, _, _)?: self = .v6(high)
            case nil: self = .local
            }
        }
    }

    private var cells: [Key: GCRACell] = [:]

    /// - Returns: `nil`: one more may be answered as wrong; else whole seconds until the next one may.
    mutating func charge(_ peer: SocketAddress, now: MonotonicInstant) -> Int? {
        let key = Key(peer)
        if cells[key] == nil, cells.count >= Self.maxAddresses { makeRoom(now: now) }
        var cell = cells[key] ?? GCRACell()
        let decision = cell.charge(now: now.nanoseconds, rule: Self.rule)
        cells[key] = cell
        switch decision {
        case .allowed: return nil
        case .limited(let nanoseconds): return Int((nanoseconds + 999_999_999) / 1_000_000_000)
        }
    }

    private mutating func makeRoom(now: MonotonicInstant) {
        cells = cells.filter { !$0.value.isIdle(now: now.nanoseconds) }
        while cells.count >= Self.maxAddresses,
            let least = cells.min(by: { $0.value.theoreticalArrival < $1.value.theoreticalArrival })
        {
            cells[least.key] = nil
        }
    }

    var count: Int { cells.count }
}

/// The connections of one loop, with those that may be closed in favour of a new one in the order in which they would go: first those
/// that have had their last response, then those that wait for a request, the longest waiting one first. Indices instead of references: no counting on the way of a request.
struct ConnectionTable {
    private struct Entry {
        var connection: ServerConnection?
        var previous: Int32 = ConnectionTable.none
        var next: Int32 = ConnectionTable.none
        /// In which turn of the loop it began to wait.
        var since: UInt32 = 0
        var isWaiting = false
    }

    private static let none: Int32 = -1
    private var entries: [Entry] = []
    private var free: [Int32] = []
    private var first = none
    private var last = none
    private(set) var count = 0
    private(set) var waitingCount = 0

    mutating func insert(_ connection: ServerConnection) -> Int32 {
        count += 1
        if let slot = free.popLast() {
            entries[Int(slot)].connection = connection
            return slot
        }
        entries.append(Entry(connection: connection))
        return Int32(entries.count - 1)
    }

    mutating func remove(_ slot: Int32) {
        entries[Int(slot)].connection = nil
        free.append(slot)
        count -= 1
    }

    /// - Parameters:
    ///   - turn: this turn of the loop.
    ///   - first: it goes before all that wait already.
    /// - Returns: whether it did not wait before.
    mutating func startWaiting(_ slot: Int32, turn: UInt32, first isFirst: Bool = false) -> Bool {
        let index = Int(slot)
        guard !entries[index].isWaiting else { return false }
        entries[index].isWaiting = true
        waitingCount += 1
        entries[index].since = turn
        entries[index].previous = isFirst ? Self.none : last
        entries[index].next = isFirst ? first : Self.none
        let (previous, next) = (entries[index].previous, entries[index].next)
        if previous == Self.none { first = slot } else { entries[Int(previous)].next = slot }
        if next == Self.none { last = slot } else { entries[Int(next)].previous = slot }
        return true
    }

    /// - Returns: whether it did wait.
    mutating func stopWaiting(_ slot: Int32) -> Bool {
        let index = Int(slot)
        guard entries[index].isWaiting else { return false }
        let (previous, next) = (entries[index].previous, entries[index].next)
        if previous == Self.none { first = next } else { entries[Int(previous)].next = next }
        if next == Self.none { last = previous } else { entries[Int(next)].previous = previous }
        entries[index].isWaiting = false
        waitingCount -= 1
        return true
    }

    /// How many that began in this turn are passed over before the search is given up.
    private static let maxPassedOver = 8

    /// The one to close in favour of another one. None that began to wait in this very turn: what it sent was not looked at yet.
    func longestWaiting(turn: UInt32) -> ServerConnection? {
        var slot = first
        for _ in 0..<Self.maxPassedOver {
            guard slot != Self.none else { return nil }
            // Nor one that has sent something which was not read yet: its event may be the next one of this very turn.
            if entries[Int(slot)].since != turn, let connection = entries[Int(slot)].connection, !connection.hasUnreadRequest {
                return connection
            }
            slot = entries[Int(slot)].next
        }
        return nil
    }

    var all: [ServerConnection] { entries.compactMap(\.connection) }
}

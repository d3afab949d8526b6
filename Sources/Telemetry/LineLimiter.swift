import Primitives

/// Keeps callers from filling the log: of the lines they can cause, at most ``maxLines`` of one message in any ``interval``.
///
/// Keyed by the text of the message. Messages are constants of the program, so the table is bounded by the program.
final class LineLimiter: Sendable {
    static let maxLines = 10
    static let interval = Duration.seconds(1)

    enum Decision: Equatable {
        /// Write it, and say that so many were left out since the last one.
        case write(leftOut: Int)
        case leaveOut
    }

    /// When the last ``maxLines`` lines of one message were written, as a ring: the oldest decides.
    private struct Window {
        var written: [MonotonicInstant] = []
        var oldest = 0
        var leftOut = 0

        mutating func decide(_ now: MonotonicInstant) -> Decision {
            if written.count < maxLines {
                written.append(now)
            } else if now - written[oldest] >= interval {
                written[oldest] = now
                oldest = (oldest + 1) % maxLines
            } else {
                leftOut += 1
                return .leaveOut
            }
            defer { leftOut = 0 }
            return .write(leftOut: leftOut)
        }
    }

    private struct Table {
        /// The same text may have several addresses, so an address only leads to its slot faster.
        var slotByAddress: [UInt: Int] = [:]
        var slotByText: [String: Int] = [:]
        var windows: [Window] = []

        mutating func slot(_ message: StaticString) -> Int {
            let address = message.hasPointerRepresentation ? UInt(bitPattern: message.utf8Start) : nil
            if let address, let slot = slotByAddress[address] { return slot }
            let text = message.description
            let slot = slotByText[text] ?? windows.count
            if slot == windows.count {
                windows.append(Window())
                slotByText[text] = slot
            }
            if let address { slotByAddress[address] = slot }
            return slot
        }
    }

    private let table = Lock(Table())

    func decide(_ message: StaticString, now: MonotonicInstant) -> Decision {
        table.withLock { table in
            let slot = table.slot(message)
            return table.windows[slot].decide(now)
        }
    }
}

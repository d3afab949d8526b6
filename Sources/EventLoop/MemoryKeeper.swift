import Dispatch
import Glibc
import Primitives

/// Gives memory back to the system after a burst: looks every 30 s, on a queue of its own. What a burst used is free in the heap then, but
/// in pieces between blocks that live on, which the allocator keeps for ever by itself.
package final class MemoryKeeper: @unchecked Sendable {
    // Sendable: the timer is made in `init` and only cancelled in `deinit`; Dispatch objects are thread-safe.
    private let timer: any DispatchSourceTimer
    private static let interval = DispatchTimeInterval.seconds(30)

    package init() {
        let decision = Lock(MemoryDecision())
        timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "january.memory", qos: .utility))
        let look: @Sendable () -> Void = {
            guard let resident = Self.residentBytes() else { return }
            let free = Allocator.freeBytes
            guard decision.withLock({ $0.shouldGiveBack(free: free, resident: resident) }) else { return }
            Allocator.giveBack()
            let afterwards = Self.residentBytes() ?? resident
            decision.withLock { $0.gaveBack(resident: afterwards) }
        }
        timer.setEventHandler(handler: look)
        timer.schedule(deadline: .now() + Self.interval, repeating: Self.interval, leeway: .seconds(5))
        timer.activate()
    }

    deinit { timer.cancel() }

    /// The second number of `/proc/self/statm`, in pages (proc(5)). Never on a disk, so reading it does not wait.
    static func residentBytes() -> Int? {
        guard let file = fopen("/proc/self/statm", "re") else { return nil }
        defer { fclose(file) }
        let bytes = [UInt8](unsafeUninitializedCapacity: 128) { buffer, count in
            count = fread(buffer.baseAddress, 1, buffer.count, file)
        }
        let numbers = bytes.split(separator: ASCII.space)
        guard numbers.count > 1, let pages = ASCII.decimal(numbers[1]) else { return nil }
        return pages * sysconf(Int32(_SC_PAGESIZE))
    }
}

/// When to give memory back. Pure.
struct MemoryDecision {
    /// Less is not worth the work.
    private static let minFreeBytes = 16 << 20
    /// By how much the process must have grown since the last time: free pages that were given back still count as free.
    private static let minGrowthBytes = 8 << 20

    private var lastFreeBytes = 0
    private var residentAfterwards = 0

    /// Only what was free at two looks in a row: in between it was not needed.
    mutating func shouldGiveBack(free: Int, resident: Int) -> Bool {
        defer { lastFreeBytes = free }
        return min(free, lastFreeBytes) >= Self.minFreeBytes && resident >= residentAfterwards + Self.minGrowthBytes
    }

    mutating func gaveBack(resident: Int) { residentAfterwards = resident }
}

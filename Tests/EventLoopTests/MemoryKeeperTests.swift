import Testing

@testable import EventLoop

struct MemoryKeeperTests {
    private static let mebibyte = 1 << 20

    /// Free and resident memory at one look after the other, in MiB, and at which of them something is given back.
    @Test(arguments: [
        (name: "a quiet server", looks: [(2, 15), (2, 15), (2, 15)], expected: [false, false, false]),
        (name: "after a burst", looks: [(2, 15), (50, 66), (50, 66)], expected: [false, false, true]),
        (name: "a burst that is needed again", looks: [(50, 66), (15, 66), (50, 66)], expected: [false, false, false]),
        (name: "at the bound", looks: [(16, 66), (16, 66)], expected: [false, true]),
        (name: "below the bound", looks: [(15, 66), (15, 66)], expected: [false, false]),
        // What was given back is still counted as free.
        (
            name: "nothing new since", looks: [(50, 66), (50, 66), (50, 17), (50, 23), (50, 24)],
            expected: [false, true, false, false, true]
        ),
    ])
    func memoryIsGivenBackOnceAfterItWasFreeForAWhile(name: String, looks: [(Int, Int)], expected: [Bool]) {
        var keeper = MemoryDecision()
        var given: [Bool] = []
        for (free, resident) in looks {
            given.append(keeper.shouldGiveBack(free: free * Self.mebibyte, resident: resident * Self.mebibyte))
            if given.last == true { keeper.gaveBack(resident: 16 * Self.mebibyte) }
        }
        #expect(given == expected, "\(name)")
    }

    /// Whatever is free: asking and giving back is safe at any time, from any thread.
    @Test
    func theAllocatorSaysWhatIsFree() {
        #expect(Allocator.freeBytes >= 0)
        Allocator.giveBack()
        #expect(MemoryKeeper.residentBytes().map { $0 > 1 << 20 } == true)
    }
}

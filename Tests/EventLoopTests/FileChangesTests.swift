import EventLoop
import Primitives
import Testing

/// When changed files are worth reading: times and looks in, an answer out.
struct FileChangesTests {
    private static func at(_ milliseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: milliseconds * 1_000_000) }

    /// A file as its `number`th version; no bytes is an empty one.
    private static func file(_ number: UInt64, bytes: Int64 = 10) -> FileChanges.Look {
        FileChanges.Look(device: 1, inode: number, byteCount: bytes, modified: Int64(number), changed: Int64(number))
    }

    /// Looks in steps of 100 ms from the first change on, until they are taken.
    /// - Returns: when, in milliseconds; `nil`: not within 20 s.
    private static func taken(
        _ changes: inout FileChanges, from start: Int64 = 0, _ looks: (Int64) -> [FileChanges.Look?]
    ) -> Int64? {
        for time in stride(from: start, through: start + 20_000, by: 100) {
            if changes.looked(looks(time), now: at(time)) { return time }
        }
        return nil
    }

    @Test func aChangeIsTakenOnceAndAfterTheQuietTime() {
        var changes = FileChanges([Self.file(1)], now: Self.at(0))
        #expect(Self.taken(&changes) { _ in [Self.file(2)] } == 500)
        #expect(Self.taken(&changes, from: 600) { _ in [Self.file(2)] } == nil)
        #expect(Self.taken(&changes, from: 30_000) { _ in [Self.file(3)] } == 30_500)
    }

    @Test func whatGoesOnChangingIsLeftAlone() {
        var changes = FileChanges([Self.file(1)], now: Self.at(0))
        let time = Self.taken(&changes) { time in [Self.file(2, bytes: min(time, 3_000))] }
        #expect(time == 3_500)
    }

    @Test func twoFilesReplacedOneAfterTheOtherAreOneChange() {
        var changes = FileChanges([Self.file(1), Self.file(2)], now: Self.at(0))
        let time = Self.taken(&changes) { time in [Self.file(3), time < 400 ? Self.file(2) : Self.file(4)] }
        #expect(time == 900)
    }

    @Test(arguments: [nil, file(9, bytes: 0)])
    func aFileThatIsMissingOrEmptyGetsMoreTime(between: FileChanges.Look?) {
        var back = FileChanges([Self.file(1)], now: Self.at(0))
        #expect(Self.taken(&back) { time in [time < 1_800 ? between : Self.file(2)] } == 2_300)
        var gone = FileChanges([Self.file(1)], now: Self.at(0))
        #expect(Self.taken(&gone) { _ in [between] } == 2_000)
        // One that was so when it was taken last is no reason to wait for another.
        #expect(Self.taken(&gone, from: 3_000) { _ in [between] } == nil)
    }

    @Test func aFileThatComesBackUnchangedIsNoChange() {
        var changes = FileChanges([Self.file(1)], now: Self.at(0))
        #expect(Self.taken(&changes) { time in [time < 1_000 ? nil : Self.file(1)] } == nil)
    }

    @Test func aWriterThatHasNotClosedIsWaitedForButNotForEver() {
        var closed = FileChanges([Self.file(1)], now: Self.at(0))
        closed.written(0, now: Self.at(0))
        var taken = [closed.looked([Self.file(2)], now: Self.at(0)), closed.looked([Self.file(2)], now: Self.at(4_000))]
        closed.closed(0, now: Self.at(4_000))
        taken.append(closed.looked([Self.file(2)], now: Self.at(4_100)))
        #expect(taken == [false, false, true])
        var open = FileChanges([Self.file(1)], now: Self.at(0))
        open.written(0, now: Self.at(0))
        #expect(Self.taken(&open) { _ in [Self.file(2)] } == 10_000)
    }

    @Test func whatChangedWhileItWasReadIsAChange() {
        var changes = FileChanges([.unknown], now: Self.at(0))
        #expect(changes.nextLook == Self.at(100))
        #expect(Self.taken(&changes) { _ in [Self.file(1)] } == 500)
    }

    @Test func eventsBringTheNextLookForwardAndSilenceLeavesAMinute() {
        var changes = FileChanges([Self.file(1)], now: Self.at(0))
        #expect(changes.nextLook == Self.at(60_000))
        changes.folderChanged(now: Self.at(1_000))
        #expect(changes.nextLook == Self.at(1_100))
        // A folder in which something happens all the time puts nothing off.
        changes.folderChanged(now: Self.at(1_050))
        #expect(changes.nextLook == Self.at(1_100))
        let isTaken = changes.looked([Self.file(1)], now: Self.at(1_100))
        #expect(!isTaken)
        #expect(changes.nextLook == Self.at(61_100))
    }
}

import Foundation
import Glibc
import Primitives
import TestSupport
import Testing

@testable import EventLoop

/// Real files in real folders, changed in every manner that secrets are changed in.
@Suite(.serialized) struct FileWatcherTests {
    private final class Place: Sendable {
        let folder = FileManager.default.temporaryDirectory.appending(path: "watch-\(UUID().uuidString)").path + "/"
        private let counter = Lock(0)
        let watcher: FileWatcher

        init(_ settings: FileChanges.Settings = Place.quick, time: any TimeSource = SystemTime()) throws {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            watcher = try FileWatcher(settings: settings, time: time) { [counter] in counter.withLock { $0 += 1 } }
        }

        deinit {
            watcher.stop()
            try? FileManager.default.removeItem(atPath: folder)
        }

        static var quick: FileChanges.Settings {
            var settings = FileChanges.Settings()
            settings.quiet = .milliseconds(20)
            settings.step = .milliseconds(5)
            settings.absence = .milliseconds(200)
            return settings
        }

        var count: Int { counter.withLock { $0 } }

        func write(_ name: String, _ text: String) throws {
            try Data(text.utf8).write(to: URL(filePath: folder + name))
        }

        func link(_ name: String, to target: String) throws {
            try FileManager.default.createSymbolicLink(atPath: folder + name, withDestinationPath: target)
        }

        func watch(_ names: [String]) async throws {
            // What was written before is long past.
            watcher.watch(names.map { folder + $0 }, readAfter: SystemTime().wall() + .seconds(60))
            // The folders are watched once the first change of theirs is seen.
            try await Task.sleep(for: .milliseconds(30))
        }

        func changes(to count: Int, _ what: String) async throws {
            try await eventually("\(what): \(self.count)") { self.count >= count }
            #expect(self.count == count, "\(what)")
        }
    }

    private struct AnHourBehind: TimeSource {
        func monotonic() -> MonotonicInstant { SystemTime().monotonic() }
        func wall() -> WallInstant { SystemTime().wall() + .seconds(-3600) }
    }

    @Test func everyMannerOfChangingAFileIsSeenOnce() async throws {
        let place = try Place()
        try place.write("key", "one")
        try await place.watch(["key"])
        try place.write("other", "nobody asked")
        // In place, as a shell's redirection does.
        let handle = try FileHandle(forWritingTo: URL(filePath: place.folder + "key"))
        try handle.truncate(atOffset: 0)
        try handle.write(contentsOf: Data("two".utf8))
        try handle.close()
        try await place.changes(to: 1, "in place")
        try place.write("key.new", "three")
        #expect(rename(place.folder + "key.new", place.folder + "key") == 0)
        try await place.changes(to: 2, "by a rename")
        try FileManager.default.removeItem(atPath: place.folder + "key")
        try place.write("key", "four")
        try await place.changes(to: 3, "deleted and made anew")
        try FileManager.default.removeItem(atPath: place.folder + "key")
        try await place.changes(to: 4, "deleted")
        try place.write("key", "five")
        try await place.changes(to: 5, "made again")
        #expect(chmod(place.folder + "key", 0o640) == 0)
        try await place.changes(to: 6, "made readable")
    }

    /// As a kubelet does: each version in a folder of its own, and one link turned to it by a rename.
    @Test func aLinkOnTheWayThatIsTurnedElsewhereIsAChange() async throws {
        let place = try Place()
        for version in ["v1", "v2", "v3"] {
            try FileManager.default.createDirectory(atPath: place.folder + version, withIntermediateDirectories: false)
            try place.write("\(version)/key", version)
        }
        try place.link("..data", to: "v1")
        try place.link("key", to: "..data/key")
        try await place.watch(["key"])
        for (index, version) in ["v2", "v3"].enumerated() {
            try place.link("..data_tmp", to: version)
            #expect(rename(place.folder + "..data_tmp", place.folder + "..data") == 0)
            try await place.changes(to: index + 1, version)
        }
        // The folder it leads to now is watched, too.
        try place.write("v3/key", "again")
        try await place.changes(to: 3, "behind the link")
    }

    @Test func aFolderThatIsALinkMayBeTurned() async throws {
        let place = try Place()
        for version in ["a", "b"] {
            try FileManager.default.createDirectory(atPath: place.folder + version, withIntermediateDirectories: false)
            try place.write("\(version)/key", version)
        }
        try place.link("secrets", to: place.folder + "a")
        try await place.watch(["secrets/key"])
        try place.link("next", to: place.folder + "b")
        #expect(rename(place.folder + "next", place.folder + "secrets") == 0)
        try await place.changes(to: 1, "the folder")
    }

    @Test func aFileThatIsStillWrittenIsWaitedFor() async throws {
        let place = try Place()
        try place.write("key", "one")
        try await place.watch(["key"])
        let handle = try FileHandle(forWritingTo: URL(filePath: place.folder + "key"))
        try handle.write(contentsOf: Data("half".utf8))
        try await Task.sleep(for: .milliseconds(300))
        #expect(place.count == 0)
        try handle.write(contentsOf: Data(" and whole".utf8))
        try handle.close()
        try await place.changes(to: 1, "closed")
    }

    @Test func whatHasChangedSinceItWasReadIsAChange() async throws {
        let place = try Place()
        let before = SystemTime().wall()
        try place.write("key", "one")
        place.watcher.watch([place.folder + "key"], readAfter: before)
        try await place.changes(to: 1, "since the start")
    }

    /// A file server's clock may be ahead of ours, and ours may have been set back.
    @Test func aTimeThatLiesAheadOfOurClockIsNoChange() async throws {
        let place = try Place(time: AnHourBehind())
        try place.write("key", "one")
        place.watcher.watch([place.folder + "key"], readAfter: AnHourBehind().wall())
        try await Task.sleep(for: .milliseconds(100))
        #expect(place.count == 0)
        try place.write("key", "two")
        try await place.changes(to: 1, "written")
    }

    @Test func aPathIsFollowedLinkByLink() throws {
        let place = try Place()
        try FileManager.default.createDirectory(atPath: place.folder + "real/deep", withIntermediateDirectories: true)
        try place.link("one", to: "real/../real/deep")
        try place.link("loop", to: "loop")
        let found = FilePlace.find(place.folder + "one/key")
        let real = URL(filePath: place.folder).resolvingSymlinksInPath().path + "/"
        #expect(found.end == FilePlace(folder: real + "real/deep/", name: "key"))
        #expect(found.folders.contains(real) && found.folders.contains(real + "real/deep/"))
        #expect(FilePlace.find(place.folder + "missing/deep/key").folders.contains(real))
        // Ends, however often it leads to itself.
        #expect(FilePlace.find(place.folder + "loop/key").folders.contains(real))
    }
}

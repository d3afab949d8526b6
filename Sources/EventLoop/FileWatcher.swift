import CSystem
import Glibc
import Primitives

/// Says when one of a few files has changed, whatever way that happened: written in place, replaced by a rename, deleted and made anew,
/// or a link on its way turned elsewhere (Kubernetes turns `..data`).
///
/// A thread of its own watches the folders of the files and of the links that lead to them (inotify), looks at the files when something
/// happens there, and once a minute besides. What is a change is decided by ``FileChanges``. Without inotify (no watches left, an odd
/// file system) only the minute is left.
package final class FileWatcher: Sendable {
    private struct Orders {
        /// `nil`: nothing new.
        var files: (paths: [String], readAfter: WallInstant)?
        var isStopped = false
    }

    /// Files that are watched at most. A configuration names a handful.
    package static let maxFiles = 256

    private let orders = Lock(Orders())
    private let wakeup: FileDescriptor
    /// `nil`: the system has none left. Open as long as this object, which its thread keeps.
    private let inotify: Int32?
    private let time: any TimeSource
    private let settings: FileChanges.Settings
    private let changed: @Sendable () -> Void

    /// - Parameter changed: called on the watcher's thread, which waits for it.
    package init(
        settings: FileChanges.Settings = FileChanges.Settings(), time: any TimeSource, changed: @escaping @Sendable () -> Void
    ) throws(SystemError) {
        self.time = time
        self.settings = settings
        self.changed = changed
        let event = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard event >= 0 else { throw SystemError("eventfd") }
        wakeup = FileDescriptor(adopting: event)
        let watch = inotify_init1(Int32(IN_CLOEXEC) | Int32(IN_NONBLOCK))
        inotify = watch >= 0 ? watch : nil
        let status = NamedThread.start("files") { [self] in run() }
        guard status == 0 else { throw SystemError("pthread_create", status) }
    }

    deinit { if let inotify { System.close(inotify) } }

    /// Whether changes are reported; otherwise the files are looked at once a minute.
    package var isReporting: Bool { inotify != nil }

    /// Watches these files and no others.
    /// - Parameter readAfter: when reading them began. What has changed since then counts as a change.
    package func watch(_ paths: [String], readAfter: WallInstant) {
        orders.withLock { $0.files = (Array(Set(paths).sorted().prefix(Self.maxFiles)), readAfter) }
        wake()
    }

    package func stop() {
        orders.withLock { $0.isStopped = true }
        wake()
    }

    private func wake() {
        var one: UInt64 = 1
        _ = System.retrying { write(wakeup.raw, &one, 8) }
    }

    // MARK: The thread

    private struct Watched {
        var paths: [String] = []
        /// Where each path ends: folder and name, behind all links.
        var ends: [FilePlace] = []
        var folders: [Int32: String] = [:]
    }

    private func run() {
        var watched = Watched()
        var changes = FileChanges([], now: time.monotonic(), settings: settings)
        while true {
            let (files, isStopped) = orders.withLock { orders in
                defer { orders.files = nil }
                return (orders.files, orders.isStopped)
            }
            if isStopped { return }
            if let files {
                watched.paths = files.paths
                watchFolders(&watched)
                changes = FileChanges(
                    Self.looks(files.paths, readAfter: files.readAfter, now: time.wall()), now: time.monotonic(),
                    settings: settings)
            }
            waitForEvents(until: changes.nextLook)
            readEvents(watched, &changes)
            guard time.monotonic() >= changes.nextLook else { continue }
            // First the watches, then the look: what happens behind the look is reported.
            watchFolders(&watched)
            if changes.looked(watched.paths.map(Self.look), now: time.monotonic()) { changed() }
        }
    }

    private func waitForEvents(until end: MonotonicInstant) {
        var entries = [pollfd(fd: wakeup.raw, events: Int16(POLLIN), revents: 0)]
        if let raw = inotify { entries.append(pollfd(fd: raw, events: Int16(POLLIN), revents: 0)) }
        let milliseconds = (end - time.monotonic()).wholeNanoseconds / 1_000_000 + 1
        _ = poll(&entries, nfds_t(entries.count), Int32(clamping: max(0, milliseconds)))
        var count: UInt64 = 0
        _ = System.retrying { read(wakeup.raw, &count, 8) }
    }

    private func readEvents(_ watched: Watched, _ changes: inout FileChanges) {
        guard let raw = inotify else { return }
        let now = time.monotonic()
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = buffer.withUnsafeMutableBytes { bytes in System.retrying { read(raw, bytes.baseAddress, bytes.count) } }
            guard count > 0 else { return }
            var offset = 0
            while offset + MemoryLayout<inotify_event>.size <= count {
                let event = buffer.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: inotify_event.self) }
                let start = offset + MemoryLayout<inotify_event>.size
                let end = min(count, start + Int(event.len))
                let name = String(decoding: buffer[start..<end].prefix { $0 != 0 }, as: UTF8.self)
                offset = end
                note(event, name, watched, &changes, now)
            }
        }
    }

    private func note(
        _ event: inotify_event, _ name: String, _ watched: Watched, _ changes: inout FileChanges, _ now: MonotonicInstant
    ) {
        changes.folderChanged(now: now)
        guard let folder = watched.folders[event.wd] else { return }
        for (index, end) in watched.ends.enumerated() where end.folder == folder && end.name == name {
            if event.mask & UInt32(IN_MODIFY) != 0 { changes.written(index, now: now) }
            // Whatever has taken its place has another writer.
            if event.mask & UInt32(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE) != 0 {
                changes.closed(index, now: now)
            }
        }
    }

    private static let interest = UInt32(
        IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB | IN_DELETE_SELF
            | IN_MOVE_SELF | IN_ONLYDIR)

    /// Watches every folder in which a change can lead a path elsewhere, and no others.
    private func watchFolders(_ watched: inout Watched) {
        let places = watched.paths.map(FilePlace.find)
        watched.ends = places.map(\.end)
        guard let raw = inotify else { return }
        var folders: [Int32: String] = [:]
        for folder in Set(places.flatMap(\.folders)) {
            let watch = inotify_add_watch(raw, folder, Self.interest)
            if watch >= 0 { folders[watch] = folder }
        }
        for old in watched.folders.keys where folders[old] == nil { _ = inotify_rm_watch(raw, old) }
        watched.folders = folders
    }

    // MARK: Looks

    static func look(_ path: String) -> FileChanges.Look? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return FileChanges.Look(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), byteCount: Int64(status.st_size),
            modified: nanoseconds(status.st_mtim), changed: nanoseconds(status.st_ctim))
    }

    /// The kernel's clock for files is up to one tick behind.
    private static let tick: Int64 = 10_000_000

    /// What has changed since it was read began is not known. A time that lies ahead of our clock (a file server's clock, a clock that was set back)
    /// says nothing about that: taken for a change it would be one again after every reload.
    private static func looks(_ paths: [String], readAfter: WallInstant, now: WallInstant) -> [FileChanges.Look?] {
        paths.map { path in
            guard let look = look(path) else { return nil }
            let mayHaveChanged =
                look.changed >= readAfter.nanosecondsSinceEpoch - tick && look.changed <= now.nanosecondsSinceEpoch + tick
            return mayHaveChanged ? .unknown : look
        }
    }

    private static func nanoseconds(_ time: timespec) -> Int64 { Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec) }
}

/// A folder and a name in it.
struct FilePlace: Equatable {
    var folder: String
    var name: String

    private static let maxLinks = 40

    /// Follows a path link by link.
    ///
    /// - Returns: where it ends, and every folder in which a change can lead it elsewhere: those with a link on the way, the last one,
    ///   and where something is missing the one that lacks it.
    static func find(_ path: String) -> (end: FilePlace, folders: [String]) {
        var folders: [String] = []
        var folder = path.hasPrefix("/") ? "/" : "./"
        var names = path.split(separator: "/").map(String.init)[...]
        var links = 0
        var end = FilePlace(folder: folder, name: "")
        while let name = names.popFirst() {
            if name == "." { continue }
            if name == ".." {
                folder = parent(of: folder)
                continue
            }
            end = FilePlace(folder: folder, name: name)
            if let target = readLink(folder + name), links < maxLinks {
                links += 1
                folders.append(folder)
                if target.hasPrefix("/") { folder = "/" }
                names = (target.split(separator: "/").map(String.init) + names)[...]
            } else if names.isEmpty || !exists(folder + name) {
                folders.append(folder)
                break
            } else {
                folder += name + "/"
            }
        }
        return (end, folders)
    }

    private static func parent(of folder: String) -> String {
        let names = folder.split(separator: "/").dropLast()
        return (folder.hasPrefix("/") ? "/" : "") + names.map { $0 + "/" }.joined()
    }

    private static func readLink(_ path: String) -> String? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes { bytes in
            bytes.withMemoryRebound(to: CChar.self) { text in text.baseAddress.map { readlink(path, $0, text.count) } ?? -1 }
        }
        return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : nil
    }

    private static func exists(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0
    }
}

import Primitives

/// When a set of files has changed and is worth reading again. Pure: looks at the files and times in, "read them now" out.
///
/// A change is taken when two looks some time apart have seen the same: what is still being written is left alone. An empty file or
/// none where one was is what a careless replacement looks like in between, so it gets more time; so does one that a writer has changed
/// and not closed yet. What is taken is still to be read and may be refused: then the next change counts again.
package struct FileChanges: Sendable {
    /// What tells one state of a file from another without reading it.
    package struct Look: Sendable, Equatable {
        package var device: UInt64
        package var inode: UInt64
        package var byteCount: Int64
        /// Of the content, and of the content or anything else; nanoseconds.
        package var modified: Int64
        package var changed: Int64

        package init(device: UInt64, inode: UInt64, byteCount: Int64, modified: Int64, changed: Int64) {
            self.device = device
            self.inode = inode
            self.byteCount = byteCount
            self.modified = modified
            self.changed = changed
        }

        /// Differs from every file: whatever is there next is a change.
        package static let unknown = Look(device: 0, inode: 0, byteCount: -1, modified: 0, changed: 0)
    }

    package struct Settings: Sendable {
        /// Between a change and its taking: two files that are replaced one after the other are one change.
        package var quiet: Duration = .milliseconds(500)
        /// The same while a file is missing or empty.
        package var absence: Duration = .seconds(2)
        /// The same while somebody writes to a file and has not closed it.
        package var writing: Duration = .seconds(10)
        /// Between two looks while something is changing.
        package var step: Duration = .milliseconds(100)
        /// Between two looks while nothing is: for file systems that report no changes.
        package var routine: Duration = .seconds(60)

        package init() {}
    }

    private let settings: Settings
    /// As the files were when they were last taken; `nil`: not there.
    private var taken: [Look?]
    private var pending: (looks: [Look?], since: MonotonicInstant)?
    /// Files that were written to and not closed, and when the last write was.
    private var writers: [Int: MonotonicInstant] = [:]
    package private(set) var nextLook: MonotonicInstant

    package init(_ files: [Look?], now: MonotonicInstant, settings: Settings = Settings()) {
        self.settings = settings
        taken = files
        nextLook = now + (files.contains(.unknown) ? settings.step : settings.routine)
    }

    /// Something has happened in one of the folders.
    package mutating func folderChanged(now: MonotonicInstant) { nextLook = min(nextLook, now + settings.step) }

    package mutating func written(_ file: Int, now: MonotonicInstant) {
        writers[file] = now
        folderChanged(now: now)
    }

    package mutating func closed(_ file: Int, now: MonotonicInstant) {
        writers[file] = nil
        folderChanged(now: now)
    }

    /// - Returns: whether the files are to be read now.
    package mutating func looked(_ looks: [Look?], now: MonotonicInstant) -> Bool {
        guard looks != taken else {
            pending = nil
            writers = [:]
            nextLook = now + settings.routine
            return false
        }
        let since = pending.flatMap { $0.looks == looks ? $0.since : nil } ?? now
        pending = (looks, since)
        guard now - since >= patience(looks, now) else {
            nextLook = now + settings.step
            return false
        }
        taken = looks
        pending = nil
        nextLook = now + settings.routine
        return true
    }

    private func patience(_ looks: [Look?], _ now: MonotonicInstant) -> Duration {
        if writers.values.contains(where: { now - $0 < settings.writing }) { return settings.writing }
        let isAbsent = zip(looks, taken).contains { look, before in look != before && (look?.byteCount ?? 0) == 0 }
        return isAbsent ? settings.absence : settings.quiet
    }
}

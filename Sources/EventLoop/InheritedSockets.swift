import CSystem
import Glibc
import Primitives

/// Listening sockets that whoever started this process has opened for it (sd_listen_fds(3)): descriptors from 3 on.
package enum InheritedSockets {
    package enum Failure: Error, Equatable, CustomStringConvertible {
        /// `LISTEN_FDS` is not set, or 0.
        case none
        /// `LISTEN_PID` names another process: they were meant for a parent of ours.
        case forAnotherProcess
        /// None of them has this name.
        case noneNamed(String)
        /// Not a stream socket that listens.
        case notListening(descriptor: Int32)

        package var description: String {
            switch self {
            case .none: "no sockets were passed to this process (LISTEN_FDS is not set); start it from its socket unit"
            case .forAnotherProcess: "the sockets in LISTEN_FDS are for another process (LISTEN_PID)"
            case .noneNamed(let name): "none of the sockets that were passed has the name \(name) (FileDescriptorName=)"
            case .notListening(let descriptor): "descriptor \(descriptor) is not a stream socket that listens"
            }
        }
    }

    /// The name of sockets for the management listener; all others are the public one's.
    package static let managementName = "management"
    private static let first: Int32 = 3
    private static let maxCount: Int32 = 64

    /// - Parameter management: those named `management`, else those with any other name.
    /// - Returns: at least one. Taken once: a descriptor has one owner.
    package static func take(environment: [String: String], management: Bool) throws(Failure) -> [ListeningSocket] {
        guard let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), count > 0, count <= maxCount else { throw .none }
        guard let pid = environment["LISTEN_PID"].flatMap({ Int32($0) }), pid == getpid() else { throw .forAnotherProcess }
        var sockets: [ListeningSocket] = []
        for (index, name) in names(environment, count).enumerated() {
            guard (name == managementName) == management else { continue }
            let raw = first + Int32(index)
            guard isListening(raw) else { throw .notListening(descriptor: raw) }
            do throws(SystemError) {
                sockets.append(try ListeningSocket(adopting: FileDescriptor(adopting: raw)))
            } catch {
                throw .notListening(descriptor: raw)
            }
        }
        if sockets.isEmpty { throw management ? .noneNamed(managementName) : .none }
        return sockets
    }

    /// Names of sockets that were passed to this process and that neither listener takes.
    package static func unclaimed(
        environment: [String: String], takesPublic: Bool, takesManagement: Bool, process: Int32 = getpid()
    ) -> [String] {
        guard let count = environment["LISTEN_FDS"].flatMap({ Int32($0) }), count > 0, count <= maxCount,
            environment["LISTEN_PID"].flatMap({ Int32($0) }) == process
        else { return [] }
        return names(environment, count).filter { $0 == managementName ? !takesManagement : !takesPublic }
    }

    /// One for each descriptor; empty where `LISTEN_FDNAMES` has none.
    private static func names(_ environment: [String: String], _ count: Int32) -> [String] {
        let given = (environment["LISTEN_FDNAMES"] ?? "").split(separator: ":", omittingEmptySubsequences: false).map(String.init)
        return (0..<Int(count)).map { $0 < given.count ? given[$0] : "" }
    }

    private static func isListening(_ raw: Int32) -> Bool {
        func option(_ name: Int32) -> Int32? {
            var value: Int32 = 0
            var length = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(raw, SOL_SOCKET, name, &value, &length) == 0 ? value : nil
        }
        return option(SO_TYPE) == Int32(SOCK_STREAM.rawValue) && option(SO_ACCEPTCONN) == 1
    }
}

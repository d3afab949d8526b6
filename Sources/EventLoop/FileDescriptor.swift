import CSystem
import Glibc

/// Owns one open descriptor and closes it exactly once. Every descriptor here is close-on-exec.
package struct FileDescriptor: ~Copyable, Sendable {
    package let raw: Int32

    /// - Parameter raw: an open descriptor that nobody else closes.
    package init(adopting raw: Int32) { self.raw = raw }

    deinit { System.close(raw) }

    /// Gives the descriptor away: the caller closes it.
    package consuming func release() -> Int32 {
        let raw = raw
        discard self
        return raw
    }
}

/// An error number of the system with the call that returned it. `EINTR` never gets here.
package struct SystemError: Error, Equatable, Sendable, CustomStringConvertible {
    package let call: StaticString
    package let number: Int32

    package init(_ call: StaticString, _ number: Int32 = errno) {
        self.call = call
        self.number = number
    }

    package var description: String { "\(call): \(text)" }
    /// The system's own words, for example `Address already in use`.
    package var text: String { String(cString: strerror(number)) }
    /// Where a socket file should be made there is a file, folder or link already.
    package var isOtherFileInPlace: Bool { number == ENOTSOCK }

    package static func == (left: Self, right: Self) -> Bool { left.number == right.number }
}

/// What one read or write on a non-blocking stream came to.
package enum IOResult: Equatable, Sendable {
    case bytes(Int)
    case wouldBlock
    /// The peer has finished sending (reads only).
    case end
    case failed(StreamError)
}

/// Why a stream is over. Bounded: every case is a metric label.
package enum StreamError: Error, Equatable, Sendable {
    case reset
    case refused
    case unreachable
    case timedOut
    /// The transport's own reason, for example `certificate_expired`; never text of the peer.
    case transport(StaticString)
    case system(Int32)

    package init(errno number: Int32) {
        switch number {
        case ECONNRESET, EPIPE, ECONNABORTED: self = .reset
        case ECONNREFUSED, ENOENT: self = .refused
        case EHOSTUNREACH, ENETUNREACH, ENETDOWN, EHOSTDOWN, EADDRNOTAVAIL: self = .unreachable
        case ETIMEDOUT: self = .timedOut
        default: self = .system(number)
        }
    }

    package var reason: StaticString {
        switch self {
        case .reset: "reset"
        case .refused: "refused"
        case .unreachable: "unreachable"
        case .timedOut: "timed_out"
        case .transport(let reason): reason
        case .system: "system"
        }
    }

    package static func == (left: Self, right: Self) -> Bool {
        switch (left, right) {
        case (.reset, .reset), (.refused, .refused), (.unreachable, .unreachable), (.timedOut, .timedOut): true
        case (.transport(let a), .transport(let b)): a.description == b.description
        case (.system(let a), .system(let b)): a == b
        default: false
        }
    }
}

import Glibc

/// Bytes that must never be printed: a key, a session, a token. Prints and reflects as `<redacted>`; the bytes are overwritten when
/// the last copy goes. Copies share one storage, so passing it on makes no further copy of the bytes.
package struct Secret: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private final class Storage: Sendable {
        let bytes: UnsafeBytes
        init(_ source: RawSpan) { bytes = UnsafeBytes(copying: source) }
        deinit { bytes.eraseAndFree() }
    }

    /// Memory that is written once, in `init`, before anybody else can see it, and freed by its one owner.
    private struct UnsafeBytes: @unchecked Sendable {
        // Sendable: immutable between `init` and `eraseAndFree`, which run when exactly one reference exists.
        let buffer: UnsafeMutableRawBufferPointer
        init(copying source: RawSpan) {
            buffer = .allocate(byteCount: source.byteCount, alignment: 1)
            source.withUnsafeBytes { buffer.copyMemory(from: $0) }
        }
        func eraseAndFree() {
            if let base = buffer.baseAddress { explicit_bzero(base, buffer.count) }
            buffer.deallocate()
        }
    }

    private let storage: Storage

    package init(_ bytes: RawSpan) { storage = Storage(bytes) }
    package init(_ bytes: [UInt8]) { storage = Storage(bytes.span.bytes) }
    package init(_ text: String) { self.init(Array(text.utf8)) }

    package var byteCount: Int { storage.bytes.buffer.count }
    package var isEmpty: Bool { byteCount == 0 }

    /// The only way to the bytes. The pointer must not leave the closure.
    package func withUnsafeBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(storage.bytes.buffer))
    }

    /// A plain copy, for a call that needs an array (a request that is about to be sent, a key that is being prepared).
    package func copyBytes() -> [UInt8] { withUnsafeBytes { Array($0) } }

    /// Constant time in the bytes; the lengths are not hidden.
    package func equals(_ other: Secret) -> Bool {
        withUnsafeBytes { left in other.withUnsafeBytes { right in ConstantTime.equal(left.bytes, right.bytes) } }
    }

    package var description: String { "<redacted>" }
    package var debugDescription: String { "<redacted>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

package enum ConstantTime {
    /// Looks at every byte whatever it finds. Different lengths are unequal at once: lengths are not secret.
    package static func equal(_ left: RawSpan, _ right: RawSpan) -> Bool {
        guard left.byteCount == right.byteCount else { return false }
        var difference: UInt8 = 0
        for offset in left.byteOffsets {
            difference |=
                left.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
                ^ right.unsafeLoad(fromByteOffset: offset, as: UInt8.self)
        }
        return difference == 0
    }

    package static func equal(_ left: [UInt8], _ right: [UInt8]) -> Bool { equal(left.span.bytes, right.span.bytes) }
}

import Glibc

/// Runs of bytes as memory: what the generic algorithms of collections do one element at a time.
package enum Bytes {
    /// Not in constant time: for what is no secret.
    @inline(__always)
    package static func equal(_ left: UnsafeBufferPointer<UInt8>, _ right: UnsafeBufferPointer<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        guard let one = left.baseAddress, let other = right.baseAddress else { return true }
        return memcmp(one, other, left.count) == 0
    }

    @inline(__always)
    package static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        guard left.count == right.count else { return false }
        guard let one = left.baseAddress, let other = right.baseAddress else { return true }
        return memcmp(one, other, left.count) == 0
    }

    @inline(__always)
    package static func equal(_ left: ArraySlice<UInt8>, _ right: [UInt8]) -> Bool {
        left.withUnsafeBufferPointer { left in right.withUnsafeBufferPointer { right in equal(left, right) } }
    }

    @inline(__always)
    package static func equal(_ left: ArraySlice<UInt8>, _ right: String) -> Bool {
        left.withUnsafeBufferPointer { left in
            right.utf8.withContiguousStorageIfAvailable { right in equal(left, right) } ?? left.elementsEqual(right.utf8)
        }
    }

    /// The offset of the first `byte` at or behind `start`.
    @inline(__always)
    package static func firstIndex(of byte: UInt8, in bytes: UnsafeRawBufferPointer, from start: Int) -> Int? {
        guard start < bytes.count, let base = bytes.baseAddress,
            let found = memchr(base + start, Int32(byte), bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }
}

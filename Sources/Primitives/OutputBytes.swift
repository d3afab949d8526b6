/// Text of known size at the end of an array whose room is made once: `array.append(addingCapacity:initializingWith:)` and these.
extension OutputSpan where Element == UInt8 {
    @inlinable @inline(__always)
    package mutating func append(_ text: StaticString) {
        append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inlinable @inline(__always)
    package mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        precondition(bytes.count <= freeCapacity, "more than the room that was made")
        withUnsafeMutableBufferPointer { buffer, count in
            // Within the room checked above; what is there is not initialized yet.
            if let from = bytes.baseAddress, let to = buffer.baseAddress {
                (to + count).initialize(from: from, count: bytes.count)
            }
            count += bytes.count
        }
    }

    @inlinable @inline(__always)
    package mutating func append(_ bytes: [UInt8]) { bytes.withUnsafeBufferPointer { append($0) } }

    @inlinable @inline(__always)
    package mutating func append(_ bytes: ArraySlice<UInt8>) { bytes.withUnsafeBufferPointer { append($0) } }

    @inlinable @inline(__always)
    package mutating func append(_ text: String) {
        var text = text
        text.withUTF8 { append($0) }
    }

    @inlinable @inline(__always)
    package mutating func append(_ bytes: RawSpan) {
        bytes.withUnsafeBytes { bytes in bytes.withMemoryRebound(to: UInt8.self) { append($0) } }
    }

    /// 16 lower-case hexadecimal digits.
    @inlinable @inline(__always)
    package mutating func append(hex value: UInt64) {
        let digits = (
            Hex.digits(UInt32(truncatingIfNeeded: value >> 32)), Hex.digits(UInt32(truncatingIfNeeded: value))
        )
        withUnsafeBytes(of: digits) { digits in digits.withMemoryRebound(to: UInt8.self) { append($0) } }
    }

    /// 1 to 20 digits.
    @inlinable
    package mutating func append(decimal value: UInt) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var start = 20
            var rest = value
            // From the right: to divide by a constant is to multiply.
            repeat {
                start -= 1
                digits.initializeElement(at: start, to: 0x30 &+ UInt8(truncatingIfNeeded: rest % 10))
                rest /= 10
            } while rest > 0
            append(UnsafeBufferPointer(rebasing: digits[start...]))
        }
    }
}

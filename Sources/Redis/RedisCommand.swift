import CHiredis
import Primitives

/// One command and its arguments, as bytes.
package struct RedisCommand: Sendable {
    /// All arguments, one after the other.
    private var storage: [UInt8] = []
    private var lengths: [Int] = []

    /// - Parameter name: such as `EVALSHA`.
    package init(_ name: StaticString, reservingBytes capacity: Int = 0) {
        if capacity > 0 { storage.reserveCapacity(capacity) }
        append(name)
    }

    package init(_ name: StaticString, _ arguments: [[UInt8]]) {
        self.init(name)
        for argument in arguments { append(argument) }
    }

    package init(_ name: StaticString, texts arguments: [String]) {
        self.init(name)
        for argument in arguments { append(argument) }
    }

    /// Name and arguments.
    package init(words: [String]) {
        for word in words { append(word) }
    }

    package mutating func append(_ argument: StaticString) {
        argument.withUTF8Buffer { storage.append(contentsOf: $0) }
        lengths.append(argument.utf8CodeUnitCount)
    }

    package mutating func append(_ argument: some Collection<UInt8>) {
        storage.append(contentsOf: argument)
        lengths.append(argument.count)
    }

    package mutating func append(_ argument: String) {
        storage.append(contentsOf: argument.utf8)
        lengths.append(argument.utf8.count)
    }

    /// Decimal digits.
    package mutating func append(_ number: Int64) { append(String(number)) }

    package mutating func append(_ secret: Secret) {
        secret.withUnsafeBytes { storage.append(contentsOf: $0) }
        lengths.append(secret.byteCount)
    }

    /// About what it takes on the wire.
    var byteCount: Int { storage.count + lengths.count * 16 }

    /// Appends it in the form of the protocol.
    func encode(into buffer: inout [UInt8]) -> Bool {
        storage.withUnsafeBytes { bytes in
            var target: UnsafeMutablePointer<CChar>?
            // Without arguments of any length there is no address, but C wants one.
            var none: CChar = 0
            let count = withUnsafePointer(to: &none) { none in
                let base = bytes.baseAddress?.assumingMemoryBound(to: CChar.self) ?? none
                var offset = 0
                var pointers: [UnsafePointer<CChar>?] = lengths.map { length in
                    defer { offset += length }
                    return base + offset
                }
                return redisFormatCommandArgv(&target, Int32(lengths.count), &pointers, lengths)
            }
            guard count >= 0, let target else { return false }
            defer { redisFreeCommand(target) }
            buffer.append(contentsOf: UnsafeRawBufferPointer(start: target, count: Int(count)))
            return true
        }
    }
}

import Primitives
import StrictJSON

// JSON: what is accepted is what a second, plain reader of the grammar accepts, and it is the same value when it is written again.

/// RFC 8259 without values: only whether the text is in the grammar, and how deep.
private struct Grammar {
    let bytes: [UInt8]
    var at = 0
    var depth = 0
    var deepest = 0

    mutating func accepts() -> Bool {
        space()
        guard value() else { return false }
        space()
        return at == bytes.count
    }

    private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

    private mutating func space() { while let byte = next, [0x20, 9, 10, 13].contains(byte) { at += 1 } }

    private mutating func take(_ word: StaticString) -> Bool {
        for byte in UnsafeBufferPointer(start: word.utf8Start, count: word.utf8CodeUnitCount) {
            guard next == byte else { return false }
            at += 1
        }
        return true
    }

    private mutating func value() -> Bool {
        switch next {
        case 0x22: return string()
        case 0x7B: return members(0x7D) { $0.member() }
        case 0x5B: return members(0x5D) { $0.value() }
        case 0x74: return take("true")
        case 0x66: return take("false")
        case 0x6E: return take("null")
        default: return number()
        }
    }

    private mutating func member() -> Bool {
        guard string() else { return false }
        space()
        guard take(":") else { return false }
        space()
        return value()
    }

    private mutating func members(_ end: UInt8, _ one: (inout Grammar) -> Bool) -> Bool {
        at += 1
        depth += 1
        deepest = max(deepest, depth)
        if depth > 60 { return false }
        defer { depth -= 1 }
        space()
        if next == end {
            at += 1
            return true
        }
        while true {
            space()
            guard one(&self) else { return false }
            space()
            if next == 0x2C {
                at += 1
                continue
            }
            guard next == end else { return false }
            at += 1
            return true
        }
    }

    private mutating func digits() -> Bool {
        let start = at
        while let byte = next, (0x30...0x39).contains(byte) { at += 1 }
        return at > start
    }

    private mutating func number() -> Bool {
        if next == 0x2D { at += 1 }
        if next == 0x30 { at += 1 } else if !digits() { return false }
        if next == 0x2E {
            at += 1
            guard digits() else { return false }
        }
        if next == 0x65 || next == 0x45 {
            at += 1
            if next == 0x2B || next == 0x2D { at += 1 }
            guard digits() else { return false }
        }
        return true
    }

    private mutating func hex() -> UInt32? {
        // Digits alone: the standard library's reader takes a sign, too.
        guard at + 4 <= bytes.count, bytes[at..<at + 4].allSatisfy({ ASCII.hexDigit($0) != nil }),
            let value = UInt32(text(bytes[at..<at + 4]), radix: 16)
        else { return nil }
        at += 4
        return value
    }

    private mutating func string() -> Bool {
        guard take("\"") else { return false }
        while let byte = next {
            at += 1
            switch byte {
            case 0x22: return true
            case 0..<0x20: return false
            case 0x5C:
                guard let escape = next else { return false }
                at += 1
                if escape == 0x75 {
                    guard let high = hex() else { return false }
                    if (0xDC00..<0xE000).contains(high) { return false }
                    if (0xD800..<0xDC00).contains(high) {
                        guard take("\\u"), let low = hex(), (0xDC00..<0xE000).contains(low) else { return false }
                    }
                } else if !Array("\"\\/bfnrt".utf8).contains(escape) {
                    return false
                }
            default: break
            }
        }
        return false
    }
}

private func hasDepth(_ value: JSONValue) -> Int {
    switch value {
    case .array(let values): 1 + (values.map(hasDepth).max() ?? 0)
    case .object(let object): 1 + (object.members.map { hasDepth($0.value) }.max() ?? 0)
    case .null, .bool, .number, .string: 0
    }
}

private func visit(_ value: JSONValue) {
    switch value {
    case .number(let number):
        if let integer = number.integer {
            require(JSONNumber(integer) == number, "integer of \(number)")
            require(number.double != nil, "an integer is a number")
        }
        if let double = number.double { require(double.isFinite, "\(number)") }
    case .array(let values): values.forEach(visit)
    case .object(let object):
        var names: Set<[UInt8]> = []
        for member in object.members {
            require(names.insert(Array(member.name.utf8)).inserted, "a name twice")
            require(object[member.name] == member.value, "a member by its name")
            visit(member.value)
        }
    case .null, .bool, .string: break
    }
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    var grammar = Grammar(bytes: bytes)
    let isGrammar = grammar.accepts() && String(validating: bytes, as: UTF8.self) != nil
    do {
        let value = try JSONValue.parse(bytes)
        require(isGrammar, "accepted and not in the grammar")
        require(hasDepth(value) <= JSONLimits.standard.depth && hasDepth(value) == grammar.deepest, "depth")
        visit(value)
        let written = value.encoded()
        // An escape of ours can be longer than what it stands for, never more than six times.
        let again = try? JSONValue.parse(written, limits: JSONLimits(bytes: 6 * 65_536))
        require(again == value, "written again: \(text(written))")
        require(again?.encoded() == written, "written twice")
        if case .object(let object) = value { require(object.encoded() == written, "object") }
    } catch {
        require((0...max(count, 65_536)).contains(error.offset), "offset \(error.offset)")
        switch error.reason {
        case .duplicateName: break
        case .tooDeep: require(!isGrammar || grammar.deepest > JSONLimits.standard.depth, "too deep")
        case .tooLarge: require(count > 65_536, "too large")
        case .invalidUTF8, .loneSurrogate, .controlCharacter, .invalidEscape, .invalidNumber, .byteOrderMark, .unexpectedEnd,
            .trailingBytes, .syntax:
            require(!isGrammar, "refused for \(error) and in the grammar")
        }
    }
    return 0
}

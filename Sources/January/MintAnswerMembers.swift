import Primitives
import StrictJSON

/// The members of a mint answer that are looked at, unescaped; `nil` where one is missing or of another type.
struct MintAnswerMembers: Equatable {
    var token: ArraySlice<UInt8>?
    var endUser: ArraySlice<UInt8>?
    var scopes: [ArraySlice<UInt8>]?
    /// Digits only: the app SDKs read it into an integer type, so `1.8e3` is as wrong as `"1800"`.
    var expiresIn: Int?
    /// `expiresIn` is there already.
    var hasAlias = false

    /// Any JSON: the strict parser decides. ``scan(_:)`` must never say anything else than this about the same bytes.
    static func parse(_ body: [UInt8]) throws(MintAnswerProblem) -> MintAnswerMembers {
        let value: JSONValue
        do throws(JSONParseError) { value = try JSONValue.parse(body.span.bytes) } catch { throw .notJSON }
        guard case .object(let object) = value else { throw .notAnObject }
        var members = MintAnswerMembers()
        members.token = object["token"]?.string.map(bytes)
        members.endUser = object["end_user_id"]?.string.map(bytes)
        if let scopes = object["scopes"]?.array {
            let texts = scopes.compactMap(\.string)
            if texts.count == scopes.count { members.scopes = texts.map(bytes) }
        }
        members.expiresIn = (object["expires_in"]?.number?.text).flatMap { ASCII.decimal($0.utf8) }
        members.hasAlias = object["expiresIn"] != nil
        return members
    }

    private static func bytes(_ text: String) -> ArraySlice<UInt8> { Array(text.utf8)[...] }

    /// The shape January sends: one flat object of printable ASCII without escapes, numbers as plain digits, arrays of such strings.
    /// `nil` means "not that shape", never "wrong": the strict parser then decides. An answer is on every app's way to its token, and
    /// a parse tree costs several times what this does.
    static func scan(_ body: [UInt8]) -> MintAnswerMembers? {
        var scanner = MintAnswerScanner(body)
        return scanner.run()
    }
}

/// Every step returns `nil` or `false` to give up.
private struct MintAnswerScanner {
    private let bytes: [UInt8]
    private var position = 0
    private var members = MintAnswerMembers()
    /// Where the names are that came so far, to refuse a second one. More than `maxNames` is not January's shape.
    private var names: [Range<Int>] = []
    private static let maxNames = 16

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    mutating func run() -> MintAnswerMembers? {
        guard bytes.count <= JSONLimits.standard.bytes else { return nil }
        names.reserveCapacity(8)
        guard take(UInt8(ascii: "{")) else { return nil }
        repeat {
            guard let name = string(), isNew(name), take(UInt8(ascii: ":")), member(name) else { return nil }
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { return nil }
        skipWhiteSpace()
        return position == bytes.count ? members : nil
    }

    private mutating func member(_ name: Range<Int>) -> Bool {
        skipWhiteSpace()
        switch byte() {
        case UInt8(ascii: "\""):
            guard let text = string() else { return false }
            if equals(name, "token") { members.token = bytes[text] }
            if equals(name, "end_user_id") { members.endUser = bytes[text] }
        case UInt8(ascii: "["):
            guard let texts = strings() else { return false }
            if equals(name, "scopes") { members.scopes = texts }
        default:
            guard let number = digits() else { return false }
            if equals(name, "expires_in") { members.expiresIn = number }
        }
        if equals(name, "expiresIn") { members.hasAlias = true }
        return true
    }

    private mutating func isNew(_ name: Range<Int>) -> Bool {
        guard names.count < Self.maxNames else { return false }
        for other in names where other.count == name.count && isSame(other, name) { return false }
        names.append(name)
        return true
    }

    private func isSame(_ left: Range<Int>, _ right: Range<Int>) -> Bool {
        bytes.withUnsafeBufferPointer { Bytes.equal(.init(rebasing: $0[left]), .init(rebasing: $0[right])) }
    }

    private mutating func strings() -> [ArraySlice<UInt8>]? {
        guard take(UInt8(ascii: "[")) else { return nil }
        var texts: [ArraySlice<UInt8>] = []
        if take(UInt8(ascii: "]")) { return texts }
        texts.reserveCapacity(10)
        repeat {
            guard let text = string() else { return nil }
            texts.append(bytes[text])
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "]")) ? texts : nil
    }

    /// Printable ASCII between two quotation marks, no escapes.
    private mutating func string() -> Range<Int>? {
        guard take(UInt8(ascii: "\"")) else { return nil }
        let start = position
        position = bytes.withUnsafeBytes { bytes in
            var offset = start
            while offset &+ 8 <= bytes.count {
                let found = Self.special(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
                guard found == 0 else { return offset &+ found.trailingZeroBitCount &>> 3 }
                offset &+= 8
            }
            while offset < bytes.count, Self.isPlain(bytes[offset]) { offset &+= 1 }
            return offset
        }
        guard byte() == UInt8(ascii: "\"") else { return nil }
        position += 1
        return start..<(position - 1)
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// The high bit of every byte that ends or spoils such a string. A borrow can set a bit too many, but only above a true one, so the
    /// lowest is right.
    @inline(__always)
    private static func special(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        let delete = word ^ (ones &* 0x7F)
        let found =
            ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash) | ((delete &- ones) & ~delete)
            | ((word &- ones &* 0x20) & ~word) | word
        return found & (ones &* 0x80)
    }

    /// 0, or up to nine digits that do not start with 0, and nothing that would go on as a number.
    private mutating func digits() -> Int? {
        let start = position
        var value = 0
        while position < bytes.count, position - start < 10, ASCII.isDigit(bytes[position]) {
            value = value * 10 + Int(bytes[position] &- 0x30)
            position += 1
        }
        let count = position - start
        guard count > 0, count < 10, count == 1 || bytes[start] != UInt8(ascii: "0") else { return nil }
        return value
    }

    private mutating func take(_ expected: UInt8) -> Bool {
        skipWhiteSpace()
        guard byte() == expected else { return false }
        position += 1
        return true
    }

    private mutating func skipWhiteSpace() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    private func byte() -> UInt8 { position < bytes.count ? bytes[position] : 0 }

    private func equals(_ range: Range<Int>, _ text: StaticString) -> Bool {
        guard range.count == text.utf8CodeUnitCount else { return false }
        for offset in 0..<range.count where bytes[range.lowerBound + offset] != text.utf8Start[offset] { return false }
        return true
    }
}

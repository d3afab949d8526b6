import Primitives
import StrictJSON

/// The members of a mint answer that are looked at, unescaped; `nil` where one is missing or of another type.
struct MintAnswerMembers {
    /// What the ranges are parts of: the body, or the unescaped texts one behind the other.
    private(set) var bytes: [UInt8] = []
    fileprivate(set) var token: Range<Int>?
    fileprivate(set) var endUser: Range<Int>?
    fileprivate(set) var scopes: [Range<Int>]?
    /// Digits only: the app SDKs read it into an integer type, so `1.8e3` is as wrong as `"1800"`.
    fileprivate(set) var expiresIn: Int?
    /// `expiresIn` is there already.
    fileprivate(set) var hasAlias = false

    /// Any JSON: the strict parser decides. ``scan(_:)`` must never say anything else than this about the same bytes.
    static func parse(_ body: [UInt8]) throws(MintAnswerProblem) -> MintAnswerMembers {
        let value: JSONValue
        do throws(JSONParseError) { value = try JSONValue.parse(body.span.bytes) } catch { throw .notJSON }
        guard case .object(let object) = value else { throw .notAnObject }
        var members = MintAnswerMembers()
        members.token = object["token"]?.string.map { members.add($0) }
        members.endUser = object["end_user_id"]?.string.map { members.add($0) }
        if let scopes = object["scopes"]?.array {
            let texts = scopes.compactMap(\.string)
            if texts.count == scopes.count { members.scopes = texts.map { members.add($0) } }
        }
        members.expiresIn = (object["expires_in"]?.number?.text).flatMap { ASCII.decimal($0.utf8) }
        members.hasAlias = object["expiresIn"] != nil
        return members
    }

    private mutating func add(_ text: String) -> Range<Int> {
        let start = bytes.count
        bytes += text.utf8
        return start..<bytes.count
    }

    /// The shape January sends: one flat object of printable ASCII without escapes, numbers as plain digits, arrays of such strings.
    /// `nil` means "not that shape", never "wrong": the strict parser then decides. An answer is on every app's way to its token, and
    /// a parse tree costs several times what this does.
    static func scan(_ body: [UInt8]) -> MintAnswerMembers? {
        guard body.count <= JSONLimits.standard.bytes else { return nil }
        return body.withUnsafeBytes { bytes in
            var scanner = MintAnswerScanner(bytes)
            guard scanner.run() else { return nil }
            scanner.members.bytes = body
            return scanner.members
        }
    }
}

extension MintAnswerMembers: Equatable {
    /// By what they say, wherever it stands.
    static func == (left: MintAnswerMembers, right: MintAnswerMembers) -> Bool {
        func texts(_ members: MintAnswerMembers) -> [ArraySlice<UInt8>?] {
            [members.token, members.endUser].map { $0.map { members.bytes[$0] } }
        }
        func scopes(_ members: MintAnswerMembers) -> [ArraySlice<UInt8>]? { members.scopes.map { $0.map { members.bytes[$0] } } }
        return texts(left) == texts(right) && scopes(left) == scopes(right) && left.expiresIn == right.expiresIn
            && left.hasAlias == right.hasAlias
    }
}

/// Every step returns `nil` or `false` to give up. Lives inside ``MintAnswerMembers/scan(_:)``, like the memory it reads; every read is
/// behind a comparison of its offset with the count.
private struct MintAnswerScanner {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    var members = MintAnswerMembers()
    /// Where the names are that came so far, to refuse a second one. More than `maxNames` is not January's shape.
    private var names = InlineArray<16, Range<Int>>(repeating: 0..<0)
    private var nameCount = 0
    private static let maxNames = 16

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func run() -> Bool {
        guard take(UInt8(ascii: "{")) else { return false }
        repeat {
            guard let name = string(), isNew(name), take(UInt8(ascii: ":")), member(name) else { return false }
        } while take(UInt8(ascii: ","))
        guard take(UInt8(ascii: "}")) else { return false }
        skipWhiteSpace()
        return position == bytes.count
    }

    private mutating func member(_ name: Range<Int>) -> Bool {
        skipWhiteSpace()
        switch byte() {
        case UInt8(ascii: "\""):
            guard let text = string() else { return false }
            if equals(name, "token") { members.token = text }
            if equals(name, "end_user_id") { members.endUser = text }
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
        guard nameCount < Self.maxNames else { return false }
        for index in 0..<nameCount where names[index].count == name.count && isSame(names[index], name) { return false }
        names[nameCount] = name
        nameCount += 1
        return true
    }

    private func isSame(_ left: Range<Int>, _ right: Range<Int>) -> Bool {
        Bytes.equal(UnsafeRawBufferPointer(rebasing: bytes[left]), UnsafeRawBufferPointer(rebasing: bytes[right]))
    }

    private mutating func strings() -> [Range<Int>]? {
        guard take(UInt8(ascii: "[")) else { return nil }
        var texts: [Range<Int>] = []
        if take(UInt8(ascii: "]")) { return texts }
        texts.reserveCapacity(10)
        repeat {
            guard let text = string() else { return nil }
            texts.append(text)
        } while take(UInt8(ascii: ","))
        return take(UInt8(ascii: "]")) ? texts : nil
    }

    /// Printable ASCII between two quotation marks, no escapes.
    private mutating func string() -> Range<Int>? {
        guard take(UInt8(ascii: "\"")) else { return nil }
        let start = position
        var offset = start
        while offset &+ 8 <= bytes.count {
            let found = PlainText.special(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            guard found == 0 else {
                offset &+= found.trailingZeroBitCount &>> 3
                break
            }
            offset &+= 8
        }
        while offset < bytes.count, PlainText.isPlain(bytes[offset]) { offset &+= 1 }
        position = offset
        guard byte() == UInt8(ascii: "\"") else { return nil }
        position += 1
        return start..<(position - 1)
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

    @inline(__always)
    private mutating func take(_ expected: UInt8) -> Bool {
        skipWhiteSpace()
        guard byte() == expected else { return false }
        position += 1
        return true
    }

    @inline(__always)
    private mutating func skipWhiteSpace() {
        if byte() <= 0x20 { skipBlanks() }
    }

    private mutating func skipBlanks() {
        while position < bytes.count {
            switch bytes[position] {
            case 0x20, 0x09, 0x0A, 0x0D: position += 1
            default: return
            }
        }
    }

    @inline(__always)
    private func byte() -> UInt8 { position < bytes.count ? bytes[position] : 0 }

    @inline(__always)
    private func equals(_ range: Range<Int>, _ text: StaticString) -> Bool {
        range.count == text.utf8CodeUnitCount && hasBytes(range, text)
    }

    private func hasBytes(_ range: Range<Int>, _ text: StaticString) -> Bool {
        Bytes.equal(
            UnsafeRawBufferPointer(rebasing: bytes[range]),
            UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}

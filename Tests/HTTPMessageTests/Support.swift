import HTTPMessage
import Primitives
import TestSupport

/// What a parser made of a message, in a form that can be compared and printed.
enum Outcome: Equatable, CustomStringConvertible {
    case needMore
    case head(String, byteCount: Int)
    case refused(HTTPParseError.Reason, offset: Int)

    var description: String {
        switch self {
        case .needMore: "need more"
        case .head(let text, let count): "\(text) [\(count)]"
        case .refused(let reason, let offset): "\(reason.rawValue) at \(offset)"
        }
    }

    var reason: HTTPParseError.Reason? {
        if case .refused(let reason, _) = self { reason } else { nil }
    }
}

func text(_ bytes: some Collection<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

func summary(_ fields: Fields) -> String {
    var lines: [String] = []
    fields.forEach { name, value in lines.append("\(text(name))=\(text(value))") }
    return lines.joined(separator: "&")
}

func summary(_ head: RequestHead) -> String {
    let target = head.target
    return "\(head.method.text) \(target.form) \(target.authority.map { text($0) } ?? "-") \(text(target.pathBytes)) "
        + "\(target.queryBytes.map { text($0) } ?? "-") \(head.version) \(summary(head.fields)) \(head.framing) "
        + "\(head.isPersistent) \(head.expectsContinue)"
}

func summary(_ head: ResponseHead) -> String {
    "\(head.version) \(head.status) \(summary(head.fields)) \(head.isPersistent)"
}

/// The prefixes of a message that a parser gets to see, the last one whole.
func reads(_ bytes: [UInt8], cuts: [Int]) -> [[UInt8]] { (cuts + [bytes.count]).map { Array(bytes[..<$0]) } }

/// A head parser, whatever it parses, for the checks that are the same for both directions.
struct HeadRun {
    var parse: ([UInt8]) throws(HTTPParseError) -> (String, Int)?

    static func request(_ limits: HTTPLimits = .standard) -> HeadRun {
        var parser = RequestHeadParser(limits: limits)
        return HeadRun { (bytes) throws(HTTPParseError) in
            try parser.parse(bytes.span.bytes).map { (summary($0.head), $0.byteCount) }
        }
    }

    static func response(_ limits: HTTPLimits = .standard) -> HeadRun {
        var parser = ResponseHeadParser(limits: limits)
        return HeadRun { (bytes) throws(HTTPParseError) in
            try parser.parse(bytes.span.bytes).map { (summary($0.head), $0.byteCount) }
        }
    }

    /// The first verdict over a series of growing reads.
    func outcome(_ reads: [[UInt8]]) -> Outcome {
        do {
            for read in reads {
                if let (head, count) = try parse(read) { return .head(head, byteCount: count) }
            }
            return .needMore
        } catch {
            return .refused(error.reason, offset: error.offset)
        }
    }
}

func request(_ bytes: [UInt8], limits: HTTPLimits = .standard) -> Outcome { HeadRun.request(limits).outcome([bytes]) }
func request(_ text: String, limits: HTTPLimits = .standard) -> Outcome { request(Array(text.utf8), limits: limits) }
func response(_ bytes: [UInt8], limits: HTTPLimits = .standard) -> Outcome { HeadRun.response(limits).outcome([bytes]) }
func response(_ text: String, limits: HTTPLimits = .standard) -> Outcome { response(Array(text.utf8), limits: limits) }

func requestHead(_ text: String) throws -> RequestHead? {
    var parser = RequestHeadParser(limits: .standard)
    return try parser.parse(Array(text.utf8).span.bytes)?.head
}

func responseHead(_ text: String) throws -> ResponseHead? {
    var parser = ResponseHeadParser(limits: .standard)
    return try parser.parse(Array(text.utf8).span.bytes)?.head
}

/// Content, bytes used and completeness, or the refusal, of a body given in pieces.
enum BodyOutcome: Equatable {
    case content(String, consumed: Int, isComplete: Bool)
    case refused(HTTPParseError.Reason, offset: Int)

    var reason: HTTPParseError.Reason? {
        if case .refused(let reason, _) = self { reason } else { nil }
    }
}

func body(
    _ bytes: [UInt8], _ framing: BodyFraming, cuts: [Int] = [], limits: HTTPLimits = .standard, discards: Bool = false
) -> BodyOutcome {
    var decoder = BodyDecoder(framing: framing, limits: limits, discards: discards)
    var content: [UInt8] = []
    var used = 0
    do {
        for end in cuts + [bytes.count] where !decoder.isComplete {
            let progress = try decoder.decode(Array(bytes[used..<end]).span.bytes, into: &content)
            used += progress.consumed
        }
        return .content(text(content), consumed: used, isComplete: decoder.isComplete)
    } catch {
        return .refused(error.reason, offset: error.offset)
    }
}

func body(_ bytes: String, _ framing: BodyFraming, limits: HTTPLimits = .standard) -> BodyOutcome {
    body(Array(bytes.utf8), framing, limits: limits)
}

extension SeededRandom {
    mutating func cuts(of count: Int) -> [Int] {
        guard count > 0 else { return [] }
        return (0..<Int.random(in: 0...4, using: &self)).map { _ in Int.random(in: 0...count, using: &self) }.sorted()
    }

    /// A few bytes changed, left out, doubled or inserted, mostly such that matter to HTTP.
    mutating func mutate(_ bytes: [UInt8]) -> [UInt8] {
        let telling = Array("\r\n \t:;,=?#%/\"\\0123chunked\u{0}\u{7F}[]*@".utf8) + [0x80, 0xFF]
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...3, using: &self) where !bytes.isEmpty {
            let offset = Int.random(in: 0..<bytes.count, using: &self)
            let byte = telling[Int.random(in: 0..<telling.count, using: &self)]
            switch Int.random(in: 0..<5, using: &self) {
            case 0: bytes[offset] = byte
            case 1: bytes.remove(at: offset)
            case 2: bytes.insert(byte, at: offset)
            case 3: bytes.insert(contentsOf: bytes[offset..<min(offset + 8, bytes.count)], at: offset)
            default: bytes[offset] = UInt8.random(in: 0...255, using: &self)
            }
        }
        return bytes
    }
}

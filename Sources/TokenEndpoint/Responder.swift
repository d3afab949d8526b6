import EventLoop
import HTTPMessage
import HTTPServer
import Primitives
import StrictJSON

/// Makes the responses of one loop: the fields that every response carries, and error bodies.
struct Responder {
    private var random = RandomPool()

    /// `X-Request-Id`: 128 random bits as 32 hex digits.
    mutating func makeRequestID() -> RequestID {
        let (high, low) = random.next128()
        return RequestID(high: high, low: low)
    }

    /// On every response, errors included.
    private static let common = Array("Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: ".utf8)
    private static let json = Array("\r\nContent-Type: application/json\r\n".utf8)
    private static let contentType = Array("\r\nContent-Type: ".utf8)
    private static let lineEnd = Array("\r\n".utf8)
    private static let januaryRequestID = Array("January-Request-Id: ".utf8)

    private static func begin(_ id: RequestID, _ next: [UInt8]) -> [UInt8] {
        var fields: [UInt8] = []
        fields.reserveCapacity(256)
        fields.append(contentsOf: common)
        id.append(to: &fields)
        fields.append(contentsOf: next)
        return fields
    }

    /// A body that is JSON of our own.
    func json(status: Int, _ content: [UInt8], id: RequestID) -> ServerResponse {
        ServerResponse(status: status, fields: Self.begin(id, Self.json), content: content)
    }

    func content(status: Int, type: StaticString, _ content: [UInt8], id: RequestID) -> ServerResponse {
        var fields = Self.begin(id, Self.lineEnd)
        HeadEncoder.field(.contentType, literal: type, to: &fields)
        return ServerResponse(status: status, fields: fields, content: content)
    }

    /// January's 201 as it came, with its own `Content-Type`.
    func minted(_ body: [UInt8], contentType: ArraySlice<UInt8>, januaryRequestID: String?, id: RequestID) -> ServerResponse {
        // Already checked to be printable where they were read.
        let januaryID = januaryRequestID ?? ""
        let room =
            Self.common.count + 32 + Self.contentType.count + contentType.count + Self.januaryRequestID.count
            + januaryID.utf8.count + 4
        var fields: [UInt8] = []
        fields.append(addingCapacity: room) { fields in
            fields.append(Self.common)
            fields.append(hex: id.high)
            fields.append(hex: id.low)
            fields.append(Self.contentType)
            fields.append(contentType)
            fields.append("\r\n")
            guard !januaryID.isEmpty else { return }
            fields.append(Self.januaryRequestID)
            fields.append(januaryID)
            fields.append("\r\n")
        }
        return ServerResponse(status: 201, fields: fields, content: body)
    }

    /// 204 to OPTIONS.
    func options(allow: StaticString, id: RequestID) -> ServerResponse {
        var fields = Self.begin(id, Self.lineEnd)
        HeadEncoder.field(.allow, literal: allow, to: &fields)
        return ServerResponse(status: 204, fields: fields)
    }

    func problem(_ problem: Problem, januaryRequestID: String? = nil, id: RequestID) -> ServerResponse {
        var fields = Self.begin(id, Self.json)
        if let seconds = problem.retryAfter {
            fields += Array("Retry-After: ".utf8)
            fields.appendDecimal(seconds)
            fields += Self.lineEnd
        }
        problem.limit?.append(to: &fields)
        if let allow = problem.allow { HeadEncoder.field(.allow, literal: allow, to: &fields) }
        switch problem.challenge {
        case nil: break
        case .noSession: HeadEncoder.field(.wwwAuthenticate, literal: #"Bearer realm="january""#, to: &fields)
        case .invalidToken(let description):
            // The descriptions are words of our own; one that does not fit a field is left out rather than sent.
            let value = #"Bearer realm="january", error="invalid_token", error_description="\#(description)""#
            do throws(FieldError) {
                try HeadEncoder.field(.wwwAuthenticate, value, to: &fields)
            } catch {
                HeadEncoder.field(.wwwAuthenticate, literal: #"Bearer realm="january", error="invalid_token""#, to: &fields)
            }
        case .management(let wasSent, let asksForBasic):
            if wasSent {
                HeadEncoder.field(
                    .wwwAuthenticate, literal: #"Bearer realm="january-management", error="invalid_token""#, to: &fields)
            } else {
                HeadEncoder.field(.wwwAuthenticate, literal: #"Bearer realm="january-management""#, to: &fields)
            }
            if asksForBasic {
                HeadEncoder.field(.wwwAuthenticate, literal: #"Basic realm="january-management""#, to: &fields)
            }
        }
        Self.append(januaryRequestID: januaryRequestID, to: &fields)
        return ServerResponse(
            status: problem.code.status, fields: fields,
            content: Self.body(problem.code, problem.message, member: problem.member, id: id))
    }

    /// One more field. A value that would not fit into one is left out.
    static func append(_ name: FieldName, _ value: String, to response: inout ServerResponse) {
        do throws(FieldError) {
            try HeadEncoder.field(name, value, to: &response.fields)
        } catch {}
    }

    private static func append(januaryRequestID: String?, to fields: inout [UInt8]) {
        guard let januaryRequestID else { return }
        // Already checked to be printable where it was read.
        fields += Self.januaryRequestID
        fields.append(contentsOf: januaryRequestID.utf8)
        fields += lineEnd
    }

    /// `{"code": "...", "message": "...", "request_id": "..."}`, the shape of January's own errors.
    private static func body(_ code: ProblemCode, _ message: StaticString, member: String?, id: RequestID) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(320)
        body += Array(#"{"code":""#.utf8)
        body += Array(code.rawValue.utf8)
        body += Array(#"","message":""#.utf8)
        message.withUTF8Buffer { body.append(contentsOf: $0) }
        body += Array(#"","request_id":""#.utf8)
        id.append(to: &body)
        body.append(UInt8(ascii: "\""))
        if let member {
            body += Array(#","member":"#.utf8)
            JSONValue.append(member, to: &body)
        }
        body.append(UInt8(ascii: "}"))
        return body
    }
}

/// Ours, on every response and in every line about the request: 32 lower-case hexadecimal digits, kept as their bits.
struct RequestID: Sendable, Equatable {
    let high: UInt64
    let low: UInt64

    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// `nil`: not what ``text`` gives.
    init?(parsing text: String) {
        let digits = Array(text.utf8)
        guard digits.count == 32, digits.allSatisfy({ ASCII.isDigit($0) || (0x61...0x66).contains($0) }),
            let high = UInt64(text.prefix(16), radix: 16), let low = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }

    var text: String {
        var digits: [UInt8] = []
        append(to: &digits)
        return String(decoding: digits, as: UTF8.self)
    }

    func append(to output: inout [UInt8]) {
        output.append(addingCapacity: 32) { output in
            output.append(hex: high)
            output.append(hex: low)
        }
    }
}

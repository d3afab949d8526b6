import HTTPMessage
import Primitives
import Sessions
import TokenEndpoint

/// What came on standard input: a session by itself, or the field lines of a request.
struct ExplainedInput {
    private let text: [UInt8]
    private let places: [CredentialPlace]

    init(_ input: [UInt8], places: [CredentialPlace]) {
        var input = input[...]
        while let last = input.last, Self.isSpace(last) { input.removeLast() }
        while let first = input.first, Self.isSpace(first) { input.removeFirst() }
        text = Array(input)
        self.places = places
    }

    /// Records where the session was found, and with which scheme.
    func credential(_ trace: SessionTrace) throws(ExplainCommand.Finding) -> SessionCredential {
        if text.isEmpty {
            trace.record("found", .failed, "there is nothing on standard input")
            throw .refused(SeenByApp(.noSession))
        }
        if isFieldLine { return try find(lines: text, trace) }
        if Self.startsWithBearer(text) { return try find(lines: Array("Authorization: ".utf8) + text, trace) }
        let place = places.first ?? .bearer
        if text.count > SessionCredential.maxBytes {
            trace.record("found", .failed, "more than \(SessionCredential.maxBytes) bytes")
            throw .refused(SeenByApp(.malformedCredential))
        }
        trace.record("found", .ok, "given by itself, taken as if it came in \(place.text)")
        trace.record("scheme", .skipped, "given by itself")
        return SessionCredential(text[...], place: place)
    }

    /// What was pasted, where it is one of January's own secrets and surely no session.
    static func mistake(_ credential: SessionCredential) -> String? {
        if credential.bytes.starts(with: "ct-".utf8) {
            return "starts with ct-: a client token of January's, which apps get from here; paste the app's own session"
        }
        if credential.bytes.starts(with: "sk-".utf8) {
            return "starts with sk-: an API key of January's, which never leaves the server; paste the app's own session"
        }
        return nil
    }

    private func find(lines: [UInt8], _ trace: SessionTrace) throws(ExplainCommand.Finding) -> SessionCredential {
        let names = places.map(\.text).joined(separator: ", then ")
        guard let fields = Self.fields(lines) else {
            trace.record("found", .failed, "the input looks like field lines of a request and is not well-formed")
            throw .refused(SeenByApp(.malformedCredential))
        }
        do throws(SessionRefusal) {
            let credential = try SessionCredential.find(in: fields, places: places)
            trace.record("found", .ok, "in \(credential.place.text)")
            if credential.place == .bearer {
                trace.record("scheme", .ok, "Bearer")
            } else {
                trace.record("scheme", .skipped, "the whole value is the session")
            }
            return credential
        } catch {
            trace.record("found", .failed, "\(error.reason.rawValue): looked in \(names)")
            if error == .noSession, places.contains(.bearer), fields.contains(.authorization) {
                trace.record("scheme", .failed, "the scheme of the Authorization field is not Bearer")
            }
            throw .refused(SeenByApp(error))
        }
    }

    /// The lines as the server would read them.
    private static func fields(_ lines: [UInt8]) -> Fields? {
        var head = Array("POST / HTTP/1.1\r\nHost: localhost\r\n".utf8)
        for line in lines.split(separator: ASCII.lineFeed) {
            head += line.last == ASCII.carriageReturn ? line.dropLast() : line
            head += [ASCII.carriageReturn, ASCII.lineFeed]
        }
        head += [ASCII.carriageReturn, ASCII.lineFeed]
        var parser = RequestHeadParser(limits: HTTPLimits(fieldsBytes: 128 * 1024))
        return (try? parser.parse(head.span.bytes))?.head.fields
    }

    /// `Authorization:`, `Cookie:`, `X-…:`, or one of the configured fields. A session by itself may hold a colon, too.
    private var isFieldLine: Bool {
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")),
            let name = FieldName(parsing: String(decoding: text[..<colon], as: UTF8.self))
        else { return false }
        return name == .authorization || name == .cookie || name.bytes.starts(with: "x-".utf8) || places.contains(.header(name))
    }

    private static func startsWithBearer(_ text: [UInt8]) -> Bool {
        text.prefix(7).map(ASCII.lowercased).elementsEqual("bearer ".utf8)
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == ASCII.space || byte == ASCII.lineFeed || byte == ASCII.carriageReturn || byte == 9
    }
}

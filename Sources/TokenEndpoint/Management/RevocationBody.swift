import EndUsers
import Primitives
import Revocations
import StrictJSON

/// Why a request to the management API is not understood: the member or parameter, and what to do about it.
struct BadMember: Error, Equatable {
    /// `nil`: the body as a whole.
    let member: String?
    let message: StaticString

    init(_ member: String?, _ message: StaticString) {
        self.member = member
        self.message = message
    }

    static func == (left: Self, right: Self) -> Bool {
        left.member == right.member && left.message.description == right.message.description
    }

    var problem: Problem {
        var problem = Problem(.badRequest, reason: member == nil ? "body" : "member")
        problem.member = member
        problem.detail = message
        return problem
    }
}

/// The body of a request for a revocation, read strictly: whatever is not understood is refused, because a block that somebody believes
/// to be there must be there.
struct RevocationBody: Equatable {
    enum Person: Equatable {
        case endUser(String)
        /// `issuer`: a namespace of a verifier.
        case subject(String, issuer: String?)
    }

    var person: Person
    var block: RevocationBlock
    var reason: String?

    /// In characters (Unicode scalars).
    static let maxReasonLength = 200
    /// Of a name that is repeated in an answer.
    private static let maxNameLength = 64

    init(person: Person, block: RevocationBlock = .user, reason: String? = nil) {
        self.person = person
        self.block = block
        self.reason = reason
    }

    /// `maxBytes`: as the listener's limit of content.
    static func parse(_ bytes: [UInt8]) throws(BadMember) -> RevocationBody {
        let value: JSONValue
        do throws(JSONParseError) {
            value = try JSONValue.parse(bytes)
        } catch {
            throw Self.problem(error, bytes)
        }
        guard let object = value.object else { throw BadMember(nil, "The content must be a JSON object.") }
        var texts: [Member: String] = [:]
        for member in object.members {
            guard let known = Member(rawValue: member.name) else {
                throw BadMember(
                    shortened(member.name), "There is no such member. Known are end_user_id, subject, issuer, block and reason.")
            }
            guard let text = member.value.string else { throw BadMember(member.name, "This member must be a string.") }
            texts[known] = text
        }
        return RevocationBody(
            person: try person(texts), block: try block(texts[.block]), reason: try reason(texts[.reason]))
    }

    private enum Member: String {
        case endUserID = "end_user_id"
        case subject, issuer, block, reason
    }

    private static func person(_ texts: [Member: String]) throws(BadMember) -> Person {
        switch (texts[.endUserID], texts[.subject]) {
        case (nil, nil): throw BadMember("end_user_id", "Say who: end_user_id, or subject.")
        case (_?, _?): throw BadMember("subject", "Send either end_user_id or subject, not both.")
        case (let id?, nil):
            if texts[.issuer] != nil {
                throw BadMember("issuer", "An issuer belongs to a subject; with end_user_id leave it out.")
            }
            try check(id)
            return .endUser(id)
        case (nil, let subject?): return .subject(subject, issuer: texts[.issuer])
        }
    }

    /// An ID that January could know somebody by. More than this endpoint would mint for: what older software minted is revoked, too.
    static func check(_ id: String, member: String = "end_user_id") throws(BadMember) {
        switch EndUserID.problemForJanuary(id) {
        case nil: return
        case .blank?: throw BadMember(member, "An end-user ID is not empty.")
        case .tooLong?: throw BadMember(member, "An end-user ID has at most 64 characters.")
        case .controlCharacter?, .lineSeparator?, .whiteSpaceAtEnds?, .looksLikeEmail?:
            throw BadMember(member, "An end-user ID has no control characters.")
        }
    }

    private static func block(_ text: String?) throws(BadMember) -> RevocationBlock {
        guard let text else { return .user }
        guard let block = RevocationBlock(rawValue: text) else { throw BadMember("block", "Must be user, sessions or none.") }
        return block
    }

    private static func reason(_ text: String?) throws(BadMember) -> String? {
        guard let text, text.unicodeScalars.count > maxReasonLength else { return text }
        throw BadMember("reason", "Must have at most 200 characters.")
    }

    private static func problem(_ error: JSONParseError, _ bytes: [UInt8]) -> BadMember {
        guard error.reason == .duplicateName else {
            return BadMember(nil, "The content must be one JSON object in UTF-8 (RFC 8259).")
        }
        // The name stands at the offset of the error and has been read once already.
        let name = bytes[error.offset...].dropFirst().prefix { $0 != UInt8(ascii: "\"") }
        return BadMember(shortened(String(decoding: name, as: UTF8.self)), "This member comes twice.")
    }

    private static func shortened(_ name: String) -> String {
        name.unicodeScalars.count <= maxNameLength
            ? name : String(String.UnicodeScalarView(name.unicodeScalars.prefix(maxNameLength))) + "…"
    }
}

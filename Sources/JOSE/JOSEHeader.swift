import StrictJSON

/// The protected header of a token (RFC 7515 section 4). Whoever sent the token wrote it: a claim about itself, not a choice.
package final class JOSEHeader: Sendable {
    /// `alg`, as written. Compared exactly: `none`, `NONE` and `hs256` are all no algorithm here.
    package let algorithmName: String
    /// `kid`
    package let keyID: String?
    /// `typ`
    package let type: String?
    /// `crit` is there, whatever it holds. No extension is understood, so none can be satisfied (RFC 7515 section 4.1.11).
    package let hasCritical: Bool
    /// `b64` other than `true` (RFC 7797) or `zip` (RFC 7516) is there: the payload would not be the octets that were decoded.
    package let changesPayload: Bool
    package let object: JSONObject

    /// `nil` where `alg` names none of the known algorithms.
    package let algorithm: JWSAlgorithm?

    /// Header parameters of the wrong type are a malformed token; unknown parameters are ignored.
    init(_ object: JSONObject) throws(JWSFormatError) {
        var algorithmName: String?
        var keyID: String?
        var type: String?
        var hasCritical = false
        var changesPayload = false
        for member in object.members {
            switch member.name {
            case "alg": algorithmName = try Self.text(member, .algorithm)
            case "kid": keyID = try Self.text(member, .keyID)
            case "typ": type = try Self.text(member, .type)
            case "crit": hasCritical = true
            case "b64": changesPayload = changesPayload || member.value != .bool(true)
            case "zip": changesPayload = true
            default: break
            }
        }
        guard let algorithmName else { throw .missingAlgorithm }
        self.algorithmName = algorithmName
        algorithm = JWSAlgorithm(rawValue: algorithmName)
        self.keyID = keyID
        self.type = type
        self.hasCritical = hasCritical
        self.changesPayload = changesPayload
        self.object = object
    }

    private static func text(
        _ member: JSONMember, _ parameter: JWSFormatError.Parameter
    ) throws(JWSFormatError) -> String {
        guard let text = member.value.string else { throw .invalidParameter(parameter) }
        return text
    }
}

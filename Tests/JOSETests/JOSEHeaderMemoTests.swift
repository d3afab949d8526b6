import Primitives
import Testing

@testable import JOSE

@Suite struct JOSEHeaderMemoTests {
    private static func token(_ header: String) -> [UInt8] {
        Array("\(Base64URL.encode(Array(header.utf8))).\(Base64URL.encode(Array("{}".utf8))).AA".utf8)
    }

    /// The same verdict for the same bytes, whether they were seen before or not.
    @Test(arguments: [
        #"{"alg":"ES256","kid":"a"}"#, #"{"alg":"ES256","kid":"b","typ":"JWT"}"#, #"{"alg":"none"}"#,
        #"{"alg":"HS256","crit":["x"]}"#,
        #"{"alg":"HS256","kid":1}"#, #"{"kid":"a"}"#, #"{"alg":"HS256","alg":"none"}"#, "[]", "no JSON", "",
    ])
    func aSecondLookSaysWhatTheFirstSaid(header: String) {
        let memo = JOSEHeaderMemo()
        let fresh = Self.verdict { () throws(JWSFormatError) in try CompactJWS.parse(Self.token(header)) }
        for _ in 0..<3 {
            let token = Self.token(header)
            let remembered = Self.verdict { () throws(JWSFormatError) in try CompactJWS.parse(token.span.bytes, memo) }
            #expect(remembered == fresh)
        }
    }

    /// More issuers than places, and a header that is too long to be kept: each token still gets its own header.
    @Test func whoPushesOthersOutChangesNothing() throws {
        let memo = JOSEHeaderMemo()
        let long = String(repeating: "k", count: JOSEHeaderMemo.maxBytes)
        for round in 0..<3 {
            for number in 0..<(JOSEHeaderMemo.maxHeaders * 2 + 1) {
                let keyID = number == 5 ? long : "key \(number)"
                let token = Self.token(#"{"alg":"ES256","kid":"\#(keyID)"}"#)
                let header = try CompactJWS.parse(token.span.bytes, memo).header
                #expect(header.keyID == keyID, "round \(round)")
                #expect(header.algorithm == .es256)
            }
        }
    }

    /// Headers that differ in one character only, of one length.
    @Test func oneCharacterIsAnotherHeader() throws {
        let memo = JOSEHeaderMemo()
        let one = try CompactJWS.parse(Self.token(#"{"alg":"HS256","kid":"a"}"#).span.bytes, memo).header
        let other = try CompactJWS.parse(Self.token(#"{"alg":"HS512","kid":"a"}"#).span.bytes, memo).header
        #expect(one.algorithm == .hs256)
        #expect(other.algorithm == .hs512)
    }

    private enum Verdict: Equatable {
        case header(algorithm: String, keyID: String?, type: String?, hasCritical: Bool)
        case refused(JWSFormatError)
    }

    private static func verdict(_ parse: () throws(JWSFormatError) -> CompactJWS) -> Verdict {
        do throws(JWSFormatError) {
            let header = try parse().header
            return .header(
                algorithm: header.algorithmName, keyID: header.keyID, type: header.type, hasCritical: header.hasCritical)
        } catch {
            return .refused(error)
        }
    }
}

import HTTPMessage
import Primitives
import TestSupport
import Testing

@testable import Sessions

/// RFC 6750 section 2.1, RFC 9110 section 11.
struct SessionCredentialTests {
    enum Expected: Sendable, Equatable {
        case found(String)
        case refused(SessionRefusal.Reason)
    }

    private static let session = FieldName("x-session")

    static func find(_ lines: [(String, String)], _ places: [CredentialPlace]) throws -> Expected {
        var block = FieldBlock()
        for (name, value) in lines {
            try block.append(try #require(FieldName(parsing: name)), bytes: Array(value.utf8).span.bytes)
        }
        do throws(SessionRefusal) {
            let credential = try SessionCredential.find(in: Fields(block), places: places)
            return .found(String(decoding: credential.bytes, as: UTF8.self))
        } catch {
            return .refused(error.reason)
        }
    }

    @Test(
        arguments: [
            ("Bearer abc", .found("abc")), ("bearer abc", .found("abc")), ("BEARER abc", .found("abc")),
            ("bEaReR abc", .found("abc")), ("Bearer   abc", .found("abc")), ("Bearer a.b-c_d~e+f/g==", .found("a.b-c_d~e+f/g==")),
            ("Bearer", .refused(.malformedCredential)), ("Bearer =", .refused(.malformedCredential)),
            ("Bearer ==", .refused(.malformedCredential)), ("Bearer a=b", .refused(.malformedCredential)),
            ("Bearer a b", .refused(.malformedCredential)), ("Bearer a, Bearer b", .refused(.malformedCredential)),
            ("Bearer a,b", .refused(.malformedCredential)), ("Bearer \"a\"", .refused(.malformedCredential)),
            ("Bearer a\u{e9}", .refused(.malformedCredential)), ("Bearer a\tb", .refused(.malformedCredential)),
            ("Basic YTpi", .refused(.noSession)), ("Bearerabc", .refused(.noSession)), ("Bearer\tabc", .refused(.noSession)),
            ("Beare abc", .refused(.noSession)), ("B", .refused(.noSession)), ("", .refused(.noSession)),
            ("abc", .refused(.noSession)), ("Bearer2 abc", .refused(.noSession)),
        ] as [(String, Expected)])
    func theAuthorizationFieldIsReadByTheGrammar(value: String, expected: Expected) throws {
        #expect(try Self.find([("Authorization", value)], [.bearer]) == expected)
    }

    @Test func withoutACredentialThereIsNoErrorInTheChallenge() throws {
        #expect(try Self.find([], [.bearer]) == .refused(.noSession))
        #expect(try Self.find([("Cookie", "a=b")], [.bearer, .header(Self.session)]) == .refused(.noSession))
        #expect(SessionRefusal.noSession.description == nil)
        #expect(SessionRefusal.malformedCredential.description == "malformed")
    }

    @Test func twoFieldsAreTwoReadingsAndRefused() throws {
        let twice = [("Authorization", "Bearer a"), ("authorization", "Bearer a")]
        #expect(try Self.find(twice, [.bearer]) == .refused(.ambiguousCredential))
        #expect(
            try Self.find([("Authorization", "Bearer a"), ("Authorization", "Basic b")], [.bearer])
                == .refused(.ambiguousCredential))
        #expect(
            try Self.find([("X-Session", "a"), ("X-Session", "b")], [.header(Self.session)]) == .refused(.ambiguousCredential))
        // Where the place is not configured the field means nothing.
        #expect(try Self.find(twice + [("X-Session", "s")], [.header(Self.session)]) == .found("s"))
    }

    @Test func theFirstPlaceWithACredentialDecides() throws {
        let places: [CredentialPlace] = [.bearer, .header(Self.session)]
        #expect(try Self.find([("X-Session", "s"), ("Authorization", "Bearer b")], places) == .found("b"))
        #expect(try Self.find([("X-Session", "s"), ("Authorization", "Bearer b")], places.reversed()) == .found("s"))
        #expect(try Self.find([("X-Session", "s"), ("Authorization", "Bearer ,")], places) == .refused(.malformedCredential))
        #expect(try Self.find([("X-Session", "s"), ("Authorization", "Basic b")], places) == .found("s"))
        #expect(try Self.find([("X-Session", ""), ("Authorization", "Bearer b")], places.reversed()) == .found("b"))
    }

    @Test(arguments: [(16_383, true), (16_384, true), (16_385, false)])
    func aCredentialHasAtMostSixteenKiB(count: Int, isAccepted: Bool) throws {
        let text = String(repeating: "a", count: count)
        let expected: Expected = isAccepted ? .found(text) : .refused(.credentialTooLarge)
        #expect(try Self.find([("Authorization", "Bearer " + text)], [.bearer]) == expected)
        #expect(try Self.find([("X-Session", text)], [.header(Self.session)]) == expected)
    }

    @Test func aCredentialIsNeverPrinted() {
        let credential = SessionCredential(Array("secret-session".utf8)[...])
        var dumped = ""
        dump(credential, to: &dumped)
        for text in ["\(credential)", String(reflecting: credential), dumped] { #expect(!text.contains("secret")) }
    }

    /// Against an oracle that reads the same grammar with `String`.
    @Test(arguments: [11, 12, 13] as [UInt64])
    func randomFieldsAreReadAsTheGrammarSays(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let pieces = ["Bearer", "bearer", "Basic", " ", "  ", "=", "a", "Zz9", "-._~+/", ",", "\"", "\t", "é", "Bearer "]
        for round in 0..<4_000 {
            let value = (0..<Int.random(in: 0...5, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }
                .joined()
            #expect(
                try Self.find([("Authorization", value)], [.bearer]) == Self.oracle(value),
                "seed \(seed), round \(round): \(value.debugDescription)")
        }
    }

    private static func oracle(_ value: String) -> Expected {
        // Blanks around a value are no part of it (RFC 9110 section 5.5).
        var value = value[...]
        while let first = value.first, first == " " || first == "\t" { value.removeFirst() }
        while let last = value.last, last == " " || last == "\t" { value.removeLast() }
        guard value.utf8.count >= 6, value.prefix(6).lowercased() == "bearer" else { return .refused(.noSession) }
        let rest = value.dropFirst(6)
        if rest.isEmpty { return .refused(.malformedCredential) }
        guard rest.first == " " else { return .refused(.noSession) }
        let token = String(rest.drop { $0 == " " })
        let allowed = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/")
        var core = Substring(token)
        while core.last == "=" { core.removeLast() }
        return !core.isEmpty && core.allSatisfy(allowed.contains) ? .found(token) : .refused(.malformedCredential)
    }
}

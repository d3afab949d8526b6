import Configuration
import EndUsers
import Foundation
import Primitives
import Testing

@testable import TokenEndpoint

/// A subject that is revoked is the end user that a session of the same person gets.
struct SubjectMappingTests {
    private static func mapping(_ sections: String) throws -> SubjectMapping {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("mapping-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        for (name, text) in [("key", "sk-0123456789abcdef"), ("secret", String(repeating: "s", count: 32))] {
            try Data(text.utf8).write(to: folder.appendingPathComponent(name))
        }
        let reader = ConfigReader.parse(
            "january: { api_key_file: key }\nfeatures: [food_search]\n" + sections, name: "test.yaml", folder: folder.path + "/")
        let config = try #require(RootConfig.read(reader), "\(reader.problems.map(\.description))")
        return SubjectMapping(config)
    }

    private static func verifier(_ issuer: String, _ more: String = "") -> String {
        "    - { type: jwt, issuer: \"\(issuer)\", audience: a, hmac_secret_file: secret, algorithms: [HS256]\(more) }\n"
    }

    private static let one = "sessions:\n  verifiers:\n" + verifier("https://one.example")
    private static let hmac = "end_user_id: { transform: hmac, secret_file: secret, prefix: p- }\n"
    private static let two = hmac + one + verifier("https://two.example")
    private static let shared =
        hmac + "sessions:\n  verifiers:\n" + verifier("https://one.example", ", namespace: acme")
        + verifier("https://two.example", ", namespace: acme")
    private static let third = shared + verifier("https://three.example")

    @Test func aSessionAndItsSubjectAreTheSameEndUser() throws {
        let key = Secret(String(repeating: "s", count: 32))
        let mapping = EndUserMapping(transform: .hmac, prefix: "p-", secret: key)
        let session = try mapping.map(claims: ["sub": "s1"], subject: "s1", namespace: "https://one.example")
        #expect(try Self.mapping(Self.two).endUserID("s1", issuer: "https://one.example") == session.text)
        #expect(try Self.mapping(Self.hmac + Self.one).endUserID("s1", issuer: nil) == session.text)
    }

    @Test(
        arguments: [
            (one, "s1", nil, "s1"), (one, "s1", "https://one.example", "s1"),
        ] as [(String, String, String?, String)])
    func withoutATransformItIsItself(sections: String, subject: String, issuer: String?, expected: String) throws {
        #expect(try Self.mapping(sections).endUserID(subject, issuer: issuer) == expected)
    }

    @Test func differentNamespacesAreDifferentPeopleAndASharedOneIsOne() throws {
        let two = try Self.mapping(Self.two)
        #expect(try two.endUserID("s", issuer: "https://one.example") != two.endUserID("s", issuer: "https://two.example"))
        let shared = try Self.mapping(Self.shared)
        let plain = try shared.endUserID("s", issuer: nil)
        #expect(try shared.endUserID("s", issuer: "acme") == plain)
        // By its issuer, as sessions name it, a verifier is known as well as by its namespace.
        #expect(try shared.endUserID("s", issuer: "https://two.example") == plain)
    }

    @Test(
        arguments: [
            (one, "s", "https://two.example", "issuer"), (one, "s", "", "issuer"), (one, "s", "HTTPS://one.example", "issuer"),
            (two, "s", nil, "issuer"), (third, "s", nil, "issuer"), (shared, "s", "acm", "issuer"),
            (one, "", nil, "subject"), (one, " ", nil, "subject"), (one, "a@b.example", nil, "subject"),
            (one, String(repeating: "s", count: 65), nil, "subject"),
        ] as [(String, String, String?, String)])
    func whatNamesNobodyIsRefused(sections: String, subject: String, issuer: String?, member: String) throws {
        let mapping = try Self.mapping(sections)
        do throws(BadMember) {
            let id = try mapping.endUserID(subject, issuer: issuer)
            Issue.record("accepted: \(id)")
        } catch {
            #expect(error.member == member)
        }
    }
}

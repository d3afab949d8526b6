import Configuration
import EndUsers
import Foundation
import Primitives
import StrictJSON
import Testing

private typealias Verifier = EndUserMapping.Verifier

private let one = [Verifier(name: "jwt", namespace: "https://i.example", hasExplicitNamespace: false)]

private func read(_ yaml: String, _ verifiers: [EndUserMapping.Verifier] = one, folder: String = "") -> (
    mapping: EndUserMapping, problems: [String], warnings: [String]
) {
    let reader = ConfigReader.parse(yaml, folder: folder)
    let mapping = EndUserMapping.read(reader.root.section("end_user_id"), verifiers: verifiers)
    return (mapping, reader.problems.map(\.description), reader.warnings.map(\.description))
}

/// A folder with the secrets `long` (32 bytes and a newline), `short` (31 bytes).
private func withSecrets(_ body: (_ folder: String) throws -> Void) throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("january-users-\(UInt64.random(in: 0 ... .max))")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    for (name, text) in [("long", "0123456789abcdef0123456789abcdef\n"), ("short", "0123456789abcdef0123456789abcde\n")] {
        let path = folder.appendingPathComponent(name).path
        try text.write(toFile: path, atomically: true, encoding: .utf8)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
    }
    try body(folder.path + "/")
}

@Suite struct EndUserConfigTests {
    @Test func defaultIsTheSubjectAsItIs() throws {
        let (mapping, problems, warnings) = read("")
        #expect(problems == [])
        #expect(warnings == [])
        #expect(mapping.from == .subject)
        #expect(mapping.transform == .none)
        #expect(mapping.prefix == "")
    }

    @Test func presetMayBringItsOwnDefault() {
        let reader = ConfigReader.parse("")
        let mapping = EndUserMapping.read(reader.root.section("end_user_id"), verifiers: one, defaultFrom: "uid")
        #expect(mapping.from == ClaimSource("uid"))
    }

    @Test func hmacIsReadWithItsSecret() throws {
        try withSecrets { folder in
            let (mapping, problems, warnings) = read(
                "end_user_id: { from: /user/id, transform: hmac, secret_file: long, prefix: acme- }", folder: folder)
            #expect(problems == [])
            #expect(warnings == [])
            let direct = EndUserMapping(transform: .hmac, prefix: "acme-", secret: Secret("0123456789abcdef0123456789abcdef"))
            let found = try mapping.map(claims: ["user": ["id": "u1"]], subject: nil, namespace: "n")
            let expected = try direct.map(claims: [:], subject: "u1", namespace: "n")
            #expect(found == expected)
        }
    }

    @Test func secretOfLessThan32BytesIsRefused() throws {
        try withSecrets { folder in
            let problems = read("end_user_id: { transform: hmac, secret_file: short }", folder: folder).problems
            #expect(problems == ["config.yaml:1: end_user_id.secret_file: must hold at least 32 bytes (has 31)"])
        }
    }

    @Test(arguments: [
        ("transform: hmac", "secret_file: required"),
        ("transform: directory", "transform: must be one of none, hmac (got \"directory\")"),
        ("transform: hash", "transform: must be one of none, hmac (got \"hash\")"),
        ("from: \"\"", "from: must be subject, the name of a claim, or a JSON pointer such as /user/id (got \"\")"),
        ("from: /a~", "from: must be subject, the name of a claim, or a JSON pointer such as /user/id (got \"/a~\")"),
        (
            "from: /user_metadata/id",
            "from: people can set user_metadata for themselves, so anybody could be anybody (got \"/user_metadata/id\")"
        ),
        (
            "from: /unsafe_metadata",
            "from: people can set unsafe_metadata for themselves, so anybody could be anybody (got \"/unsafe_metadata\")"
        ),
        (
            "from: user_metadata",
            "from: people can set user_metadata for themselves, so anybody could be anybody (got \"user_metadata\")"
        ),
        ("prefix: \" a\"", "prefix: must have no control or format characters and no white space at its start"),
        ("prefix: \"a\\u200b\"", "prefix: must have no control or format characters and no white space at its start"),
        ("prefix: \"\(String(repeating: "x", count: 64))\"", "prefix: must be at most 63 bytes, so that an ID has at most 64"),
        ("form: sub", "form: unknown key; did you mean \"from\"?"),
    ])
    func problemIsNamedAtItsKey(yaml: String, expected: String) {
        #expect(read("end_user_id:\n  \(yaml)").problems.map { $0.drop { $0 != " " }.dropFirst() } == ["end_user_id.\(expected)"])
    }

    @Test func prefixOfHmacLeavesRoomForTheHash() throws {
        try withSecrets { folder in
            for (count, problems) in [(32, 0), (33, 1)] {
                let prefix = String(repeating: "x", count: count)
                let yaml = "end_user_id: { transform: hmac, secret_file: long, prefix: \(prefix) }"
                #expect(read(yaml, folder: folder).problems.count == problems)
            }
        }
    }

    @Test(arguments: [
        ("from: preferred_username", 1), ("from: upn", 1), ("from: /nickname", 1), ("from: \"custom:id\"", 1), ("from: uid", 0),
        ("from: /app_metadata/id", 0), ("from: email", 1), ("from: email, trust_unverified_email: true", 2),
        ("trust_unverified_email: true", 1),
    ])
    func warningsAreGivenForClaimsThatPeopleControl(yaml: String, count: Int) {
        let (_, problems, warnings) = read("end_user_id: { \(yaml) }")
        #expect(problems == [])
        #expect(warnings.count == count, "\(warnings)")
    }

    private static func verifier(_ namespace: String?, explicit: Bool = true, prefix: String? = nil) -> EndUserMapping.Verifier {
        .init(name: "v", namespace: namespace, hasExplicitNamespace: explicit, prefix: prefix)
    }

    @Test(arguments: [
        ([verifier(nil)], true), ([verifier("a", explicit: false)], true), ([verifier("a"), verifier("a")], true),
        ([verifier("a"), verifier("b")], false), ([verifier("a"), verifier("a", explicit: false)], false),
        ([verifier("a", explicit: false), verifier("a", explicit: false)], false), ([verifier(nil), verifier(nil)], false),
        ([verifier("a"), verifier(nil)], false), ([verifier("\u{E9}"), verifier("e\u{301}")], false),
        ([verifier("a", prefix: "x-"), verifier("b", prefix: "y-")], true),
        ([verifier("a", prefix: "x-"), verifier("b")], false),
        ([verifier("a", prefix: "x"), verifier("b", prefix: "x")], false),
        ([verifier("a", prefix: "x"), verifier("b", prefix: "xy")], false),
        ([verifier("a", prefix: "x"), verifier("b", prefix: "")], false), ([verifier("a\u{0}")], false), ([], true),
    ])
    func noneNeedsOneNamespaceOrAPrefixForEach(verifiers: [EndUserMapping.Verifier], isAccepted: Bool) {
        #expect(read("end_user_id: { transform: none }", verifiers).problems.isEmpty == isAccepted)
    }

    @Test(arguments: [
        ([verifier(nil)], 0), ([verifier("a"), verifier("b", explicit: false)], 0), ([verifier("a"), verifier(nil)], 1),
        ([verifier(nil), verifier(nil)], 2),
    ])
    func hmacNeedsANamespaceForEachOfSeveral(verifiers: [EndUserMapping.Verifier], count: Int) throws {
        try withSecrets { folder in
            #expect(
                read("end_user_id: { transform: hmac, secret_file: long }", verifiers, folder: folder).problems.count == count)
        }
    }
}

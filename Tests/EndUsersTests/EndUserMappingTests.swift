import EndUsers
import Primitives
import StrictJSON
import TestSupport
import Testing

private func id(
    _ mapping: EndUserMapping, _ claims: JSONObject = [:], subject: String? = nil, namespace: String? = nil, prefix: String? = nil
) -> Result<String, EndUserError> {
    do throws(EndUserError) {
        return .success(try mapping.map(claims: claims, subject: subject, namespace: namespace, prefix: prefix).text)
    } catch {
        return .failure(error)
    }
}

private func source(_ text: String) throws -> ClaimSource { try #require(ClaimSource(text)) }

@Suite struct EndUserMappingTests {
    @Test(
        arguments: [
            ("u1", .success("u1")), ("auth0|abc", .success("auth0|abc")), ("Zoë", .success("Zoë")), ("a b", .success("a b")),
            (String(repeating: "x", count: 64), .success(String(repeating: "x", count: 64))),
            (String(repeating: "x", count: 65), .failure(.invalid(.tooLong))),
            // 32 characters, 64 and 66 bytes.
            (String(repeating: "é", count: 32), .success(String(repeating: "é", count: 32))),
            (String(repeating: "é", count: 33), .failure(.invalid(.tooLong))), ("", .failure(.invalid(.blank))),
            (" ", .failure(.invalid(.blank))),
            ("\t\n", .failure(.invalid(.blank))), ("\u{3000}", .failure(.invalid(.blank))),
            (" u1", .failure(.invalid(.whiteSpaceAtEnds))),
            ("u1 ", .failure(.invalid(.whiteSpaceAtEnds))), ("u1\u{A0}", .failure(.invalid(.whiteSpaceAtEnds))),
            ("\u{3000}u1", .failure(.invalid(.whiteSpaceAtEnds))), ("u1\n", .failure(.invalid(.controlCharacter))),
            ("u\u{0}1", .failure(.invalid(.controlCharacter))), ("u\u{7F}", .failure(.invalid(.controlCharacter))),
            ("u\u{85}x", .failure(.invalid(.controlCharacter))), ("u\u{200B}1", .failure(.invalid(.controlCharacter))),
            ("u\u{202E}1", .failure(.invalid(.controlCharacter))), ("\u{FEFF}u1", .failure(.invalid(.controlCharacter))),
            ("u\u{AD}1", .failure(.invalid(.controlCharacter))), ("u\u{E0041}", .failure(.invalid(.controlCharacter))),
            ("u\u{2028}1", .failure(.invalid(.lineSeparator))), ("u\u{2029}1", .failure(.invalid(.lineSeparator))),
            ("a@b.example", .failure(.invalid(.looksLikeEmail))), ("a@b@c.d", .failure(.invalid(.looksLikeEmail))),
            ("@.", .failure(.invalid(.looksLikeEmail))), ("a@b", .success("a@b")), ("a.b@c", .success("a.b@c")),
            ("a.b", .success("a.b")),
        ] as [(String, Result<String, EndUserError>)])
    func valueGoesThroughAsItIsOrIsRefused(value: String, expected: Result<String, EndUserError>) {
        #expect(id(EndUserMapping(), subject: value) == expected)
    }

    @Test(
        arguments: [
            ("u1", .success("u1")), (17, .success("17")), (0, .success("0")),
            (9_007_199_254_740_992, .success("9007199254740992")),
            (9_007_199_254_740_993, .failure(.noEndUser(.wrongType))), (-1, .failure(.noEndUser(.wrongType))),
            (1.5, .failure(.noEndUser(.wrongType))), (true, .failure(.noEndUser(.wrongType))),
            (.null, .failure(.noEndUser(.missing))),
            (["u1"], .failure(.noEndUser(.wrongType))), (["id": "u1"], .failure(.noEndUser(.wrongType))),
        ] as [(JSONValue, Result<String, EndUserError>)])
    func valueIsAStringOrAnInteger(value: JSONValue, expected: Result<String, EndUserError>) throws {
        #expect(id(EndUserMapping(from: try source("uid")), ["uid": value]) == expected)
        #expect(id(EndUserMapping(from: try source("/a/0/uid")), ["a": [["uid": value]]]) == expected)
    }

    @Test(arguments: ["1e3", "1000", "1000.0"])
    func integerIsItsDigitsHoweverItIsWritten(text: String) throws {
        let claims = try #require(try JSONValue.parse("{\"uid\":\(text)}").object)
        #expect(id(EndUserMapping(from: try source("uid")), claims) == .success("1000"))
    }

    @Test(arguments: ["1e400", "1e-1", "99999999999999999999999999", "-9223372036854775808", "1e99999999999999999999"])
    func hugeNumbersAreNobody(text: String) throws {
        let claims = try #require(try JSONValue.parse("{\"uid\":\(text)}").object)
        #expect(id(EndUserMapping(from: try source("uid")), claims) == .failure(.noEndUser(.wrongType)))
    }

    @Test func claimIsLookedUpWhereItIsConfigured() throws {
        let claims: JSONObject = [
            "sub": "s", "subject": "no", "a.b": "dot", "/x": "slash", "x": "x", "user": ["id": "i", "a/b": "e"],
        ]
        #expect(id(EndUserMapping(), claims, subject: "given") == .success("given"))
        #expect(id(EndUserMapping(), claims) == .failure(.noEndUser(.missing)))
        #expect(id(EndUserMapping(from: try source("sub")), claims) == .success("s"))
        #expect(id(EndUserMapping(from: try source("a.b")), claims) == .success("dot"))
        #expect(id(EndUserMapping(from: try source("/x")), claims) == .success("x"))
        #expect(id(EndUserMapping(from: try source("/user/id")), claims) == .success("i"))
        #expect(id(EndUserMapping(from: try source("/user/a~1b")), claims) == .success("e"))
        #expect(id(EndUserMapping(from: try source("/user/none")), claims) == .failure(.noEndUser(.missing)))
        #expect(id(EndUserMapping(from: try source("user.id")), claims) == .failure(.noEndUser(.missing)))
    }

    @Test func prefixCountsAndMakesNoPersonOfABlankValue() {
        let mapping = EndUserMapping(prefix: "acme-")
        #expect(id(mapping, subject: "u1") == .success("acme-u1"))
        #expect(id(mapping, subject: String(repeating: "x", count: 59)) == .success("acme-" + String(repeating: "x", count: 59)))
        #expect(id(mapping, subject: String(repeating: "x", count: 60)) == .failure(.invalid(.tooLong)))
        #expect(id(mapping, subject: "") == .failure(.invalid(.blank)))
        #expect(id(mapping, subject: " ") == .failure(.invalid(.blank)))
        #expect(id(mapping, subject: "u1", prefix: "other:") == .success("other:u1"))
        #expect(id(EndUserMapping(prefix: "a@"), subject: "b.c") == .failure(.invalid(.looksLikeEmail)))
    }

    /// printf 'acme\0u1' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
    @Test func hmacIsTheFirst32HexDigitsOverNamespaceZeroAndValue() throws {
        let mapping = EndUserMapping(transform: .hmac, prefix: "p-", secret: Secret("0123456789abcdef0123456789abcdef"))
        #expect(id(mapping, subject: "u1", namespace: "acme") == .success("p-a0db05a5b37b19d0c90773ef656a1a43"))
        let all = [("acme", "u1"), ("acme", "u2"), ("acm", "eu1"), ("", "u1"), ("acme", "U1"), ("acme", "u1 ")].map {
            id(mapping, subject: $0.1, namespace: $0.0)
        }
        #expect(Set(try all.map { try $0.get() }).count == all.count)
        #expect(id(mapping, subject: "u1") == id(mapping, subject: "u1", namespace: ""))
        let other = EndUserMapping(transform: .hmac, prefix: "p-", secret: Secret("0123456789abcdef0123456789abcdeg"))
        #expect(id(other, subject: "u1", namespace: "acme") != all[0])
    }

    @Test func hmacTakesWhatCouldNotBeAnIDItself() throws {
        let mapping = EndUserMapping(transform: .hmac, secret: Secret("0123456789abcdef0123456789abcdef"))
        for value in ["a@b.example", "line\nfeed", String(repeating: "x", count: 5_000), "u\u{202E}"] {
            #expect(try id(mapping, subject: value).get().utf8.count == 32)
        }
        #expect(id(mapping, subject: "") == .failure(.invalid(.blank)))
        #expect(id(mapping, subject: " \t") == .failure(.invalid(.blank)))
    }

    @Test(
        arguments: [
            ("email", ["email": "a@b.c", "email_verified": true], true),
            ("email", ["email": "a@b.c", "email_verified": "true"], true),
            ("email", ["email": "a@b.c", "email_verified": "True"], false),
            ("email", ["email": "a@b.c", "email_verified": 1], false),
            ("email", ["email": "a@b.c", "email_verified": false], false), ("email", ["email": "a@b.c"], false),
            ("email", ["email": "a@b.c", "email_verified": ["true"]], false),
            ("/email", ["email": "a@b.c", "email_verified": true], true),
            ("/email", ["email": "a@b.c"], false), ("/user/email", ["user": ["email": "a@b.c", "email_verified": true]], true),
            // Beside it means in the same object.
            ("/user/email", ["user": ["email": "a@b.c"], "email_verified": true], false),
            ("/users/0/email", ["users": [["email": "a@b.c", "email_verified": true]]], true),
            ("mail", ["mail": "a@b.c", "email_verified": false], true),
        ] as [(String, JSONObject, Bool)])
    func emailCountsOnlyWhenItIsVerified(from: String, claims: JSONObject, isAccepted: Bool) throws {
        let secret = Secret("0123456789abcdef0123456789abcdef")
        let mapping = EndUserMapping(from: try source(from), transform: .hmac, secret: secret)
        let result = id(mapping, claims)
        if isAccepted {
            #expect(throws: Never.self) { try result.get() }
        } else {
            #expect(result == .failure(.noEndUser(.unverifiedEmail)))
        }
        let trusting = EndUserMapping(from: try source(from), transform: .hmac, secret: secret, trustsUnverifiedEmail: true)
        #expect(throws: Never.self) { try id(trusting, claims).get() }
    }

    @Test func subjectIsNeededUnlessAnotherClaimNamesThePerson() throws {
        #expect(EndUserMapping().requiresSubject)
        #expect(EndUserMapping(from: try source("sub")).requiresSubject)
        #expect(!EndUserMapping(from: try source("uid")).requiresSubject)
    }

    @Test func idsAreComparedByTheirBytes() throws {
        #expect(try EndUserID("\u{E9}") != EndUserID("e\u{301}"))
        #expect(Set([try EndUserID("\u{E9}"), try EndUserID("e\u{301}"), try EndUserID("\u{E9}")]).count == 2)
    }

    @Test func identityNamesWhatDiffers() throws {
        let secret = Secret("0123456789abcdef0123456789abcdef")
        let one = EndUserMapping(transform: .hmac, prefix: "p", secret: secret).identity(namespaces: ["b", "a", "b"])
        #expect(one.namespaces == ["a", "b"])
        #expect(
            one.differences(from: EndUserMapping(transform: .hmac, prefix: "p", secret: secret).identity(namespaces: ["a", "b"]))
                == [])
        let other = EndUserMapping(from: try source("uid"), prefix: "q").identity(namespaces: [nil])
        #expect(
            one.differences(from: other) == [
                "end_user_id.transform", "end_user_id.prefix", "end_user_id.from", "sessions.verifiers[].namespace",
                "end_user_id.secret_file",
            ])
        #expect(!"\(one)".contains("0123456789"))
    }

    /// Whatever comes in: an ID that comes out is one that January takes.
    @Test func randomTextsBecomeIDsOrAreRefused() {
        var random = SeededRandom(seed: 64)
        let pieces = ["a", "@", ".", " ", "\u{200D}", "\u{2029}", "\u{0}", "é", "日", "😀", "\u{301}", "\u{A0}", "x", "1"]
        for _ in 0..<5_000 {
            let value = (0..<Int.random(in: 0...40, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }
                .joined()
            guard case .success(let id) = id(EndUserMapping(prefix: "p"), subject: value) else { continue }
            #expect((1...64).contains(id.utf8.count))
            #expect(id == "p" + value)
            let forbidden: Set<Unicode.GeneralCategory> = [.control, .format, .lineSeparator, .paragraphSeparator]
            #expect(!id.unicodeScalars.contains { forbidden.contains($0.properties.generalCategory) })
            #expect(id.unicodeScalars.last?.properties.isWhitespace == false)
            #expect(
                id.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false).dropFirst().allSatisfy {
                    !$0.contains(".")
                })
        }
    }
}

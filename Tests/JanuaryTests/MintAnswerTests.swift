import StrictJSON
import TestSupport
import Testing

@testable import January

private let terms = MintTerms(scopes: ["food_logs:read", "foods:read"], ttlSeconds: 1800)
private let good =
    #"{"token":"ct-abc","expires_in":1800,"expires_at":"2026-11-30T00:30:00.000Z","end_user_id":"u1","scopes":["food_logs:read","foods:read"]}"#

private func check(_ text: String, _ id: String = "u1", _ terms: MintTerms = terms) -> MintAnswerProblem? {
    do throws(MintAnswerProblem) {
        _ = try MintAnswer.check(Array(text.utf8), endUserID: id, terms: terms)
        return nil
    } catch {
        return error
    }
}

@Suite struct MintAnswerTests {
    @Test func theAnswerOfTheContractPassesAndKeepsItsBytes() throws {
        let answer = try MintAnswer.check(Array(good.utf8), endUserID: "u1", terms: terms)
        #expect(answer.body == Array(good.utf8))
        #expect(answer.expiresIn == 1800)
        // printf 'ct-abc' | sha256sum
        #expect(answer.tokenFingerprint == 0x35a8_1067_b33b_fdc2)
        #expect("\(answer)" == "<redacted>")
        #expect(String(reflecting: answer) == "<redacted>")
    }

    @Test(
        arguments: [
            (good, nil),
            (good.replacing("1800", with: "61"), nil),
            (good.replacing("1800", with: "60"), .lifetime),
            (good.replacing("1800", with: "1801"), .lifetime),
            (good.replacing("1800", with: "0"), .lifetime),
            (good.replacing("1800", with: "-1800"), .lifetime),
            (good.replacing("1800", with: "1800.0"), .lifetime),
            (good.replacing("1800", with: "1.8e3"), .lifetime),
            (good.replacing("1800", with: "\"1800\""), .lifetime),
            (good.replacing("1800", with: "null"), .lifetime),
            (good.replacing("1800", with: "9999999999999999999999999999"), .lifetime),
            (good.replacing("1800", with: "1e999999"), .lifetime),
            (good.replacing("1800", with: "01800"), .notJSON),
            (good.replacing("\"expires_in\":1800,", with: ""), .lifetime),
            (good.replacing("expires_in", with: "expiresIn"), .lifetime),
            (good.replacing("ct-abc", with: ""), .token),
            (good.replacing("ct-abc", with: "ct-"), .token),
            (good.replacing("ct-abc", with: "sk-abc"), .token),
            (good.replacing("ct-abc", with: " ct-abc"), .token),
            (good.replacing("ct-abc", with: "CT-abc"), .token),
            (good.replacing("ct-abc", with: #"\u0063t-abc"#), nil),
            (good.replacing("\"ct-abc\"", with: "17"), .token),
            (good.replacing("\"token\":\"ct-abc\",", with: ""), .token),
            (good.replacing("u1", with: "u2"), .endUser),
            (good.replacing("u1", with: "U1"), .endUser),
            (good.replacing("u1", with: "u1 "), .endUser),
            (good.replacing("u1", with: ""), .endUser),
            (good.replacing("\"u1\"", with: "1"), .noEndUser),
            (good.replacing("\"u1\"", with: "null"), .noEndUser),
            (good.replacing("\"u1\"", with: "[\"u1\"]"), .noEndUser),
            (good.replacing("\"end_user_id\":\"u1\",", with: ""), .noEndUser),
            (good.replacing("\"u1\"", with: #""\u00751""#), nil),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: #"["foods:read","food_logs:read"]"#), nil),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: #"["foods:read"]"#), .scopes),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: "[]"), .scopes),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: #"["foods:read","foods:read"]"#), .scopes),
            (
                good.replacing(#"["food_logs:read","foods:read"]"#, with: #"["food_logs:read","foods:read","foods:read"]"#),
                .scopes
            ),
            (
                good.replacing(#"["food_logs:read","foods:read"]"#, with: #"["food_logs:read","foods:read","glucose:read"]"#),
                .scopes
            ),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: #"["food_logs:read","glucose:read"]"#), .scopes),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: #""food_logs:read foods:read""#), .noScopes),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: #"["food_logs:read",1]"#), .noScopes),
            (good.replacing(#"["food_logs:read","foods:read"]"#, with: "null"), .noScopes),
            // Two members of one name are two answers.
            (good.replacing(#""token":"#, with: #""token":"ct-x","token":"#), .notJSON),
            (good.replacing(#""token":"#, with: #""tok\u0065n":"ct-x","token":"#), .notJSON),
            (good.replacing(#""token":"#, with: #""end_user_id":"u1","token":"#), .notJSON),
            (good.replacing(#""token":"#, with: #""x":1,"x":1,"token":"#), .notJSON),
            (good.replacing(#""token":"#, with: #""x":{"a":1,"a":2},"token":"#), .notJSON),
            // Unknown members are kept.
            (good.replacing(#""token":"#, with: #""x":{"a":[1,true,null,"é"]},"y":-1.5e3,"token":"#), nil),
            (
                " \n"
                    + good.replacing(",", with: " ,\t").replacing(":", with: " : ").replacing("food_logs : ", with: "food_logs:")
                    .replacing("foods : ", with: "foods:") + "\r\n", nil
            ),
            (good + "x", .notJSON), (good + good, .notJSON), ("\u{FEFF}" + good, .notJSON), ("", .notJSON), ("{", .notJSON),
            ("<html></html>", .notJSON), ("{}", .token), ("[]", .notAnObject), ("\"ct-abc\"", .notAnObject),
            ("null", .notAnObject),
            (good.replacing("}", with: ",}"), .notJSON), (good.replacing("abc", with: "a\nc"), .notJSON),
            ("{\"x\":\(String(repeating: "[", count: 33))\(String(repeating: "]", count: 33))}", .notJSON),
            (#"{"x":""# + String(repeating: "y", count: 65_536) + #""}"#, .notJSON),
        ] as [(String, MintAnswerProblem?)])
    func answerIsCheckedMemberByMember(text: String, expected: MintAnswerProblem?) {
        #expect(check(text) == expected)
    }

    /// Unicode says these are equivalent; they are two people.
    @Test func endUserIsComparedByBytes() {
        #expect(check(good.replacing("u1", with: "\u{E9}"), "e\u{301}") == .endUser)
        #expect(check(good.replacing("u1", with: "\u{E9}"), "\u{E9}") == nil)
    }

    @Test func onlyAnotherUserOrOtherScopesAreSecurityEvents() {
        #expect(MintAnswerProblem.allCases.filter(\.isSecurityEvent) == [.endUser, .scopes])
    }

    @Test func everyPrefixOfAGoodAnswerIsNoAnswer() {
        for end in 0..<good.utf8.count {
            #expect(check(String(decoding: Array(good.utf8).prefix(end), as: UTF8.self)) == .notJSON)
        }
    }

    @Test(arguments: [
        (good, "{\"expiresIn\":1800," + good.dropFirst()),
        (" \n{ " + good.dropFirst(), " \n{\"expiresIn\":1800, " + good.dropFirst()),
        (good.replacing("}", with: ",\"expiresIn\":7}"), good.replacing("}", with: ",\"expiresIn\":7}")),
        (good.replacing("}", with: ",\"expires\\u0049n\":null}"), good.replacing("}", with: ",\"expires\\u0049n\":null}")),
    ])
    func aliasIsInsertedAndEveryOtherByteLeftAlone(text: String, expected: String) throws {
        let answer = try MintAnswer.check(Array(text.utf8), endUserID: "u1", terms: terms)
        #expect(String(decoding: answer.bodyWithExpiresInAlias(), as: UTF8.self) == expected)
        #expect(throws: Never.self) { try JSONValue.parse(answer.bodyWithExpiresInAlias()) }
    }

    /// The fast reader may give up, it may never say anything else than the strict parser.
    @Test func fastReaderAgreesWithTheParserOnRandomMutations() throws {
        var random = SeededRandom(seed: 20_261_130)
        let pieces = [
            "{", "}", "[", "]", ",", ":", "\"", "\\", "0", "7", "1800", "ct-", "\"token\"", "\"end_user_id\":\"u2\"", " ", "\n",
            "é", "\u{1}",
            "null", "true", "-", ".", "e9", "\"expiresIn\"", "\"scopes\":[]", "u1",
        ].map { Array($0.utf8) }
        var taken = 0
        for _ in 0..<20_000 {
            var body = Array(good.utf8)
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                let at = Int.random(in: 0..<body.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: body[at] = UInt8.random(in: 0...255, using: &random)
                case 1: body.removeSubrange(at..<min(body.count, at + Int.random(in: 1...9, using: &random)))
                case 2: body.insert(contentsOf: pieces.randomElement(using: &random) ?? [], at: at)
                default: body.insert(contentsOf: body[at..<min(body.count, at + 30)], at: at)
                }
                if body.isEmpty { body = [0] }
            }
            guard let scanned = MintAnswerMembers.scan(body) else { continue }
            taken += 1
            #expect(scanned == (try MintAnswerMembers.parse(body)), "\(String(decoding: body, as: UTF8.self))")
        }
        #expect(taken > 4_000)
    }

    /// Whatever happens to an answer on its way, one for another user or with other scopes is never accepted.
    @Test func noMutationMakesAWrongAnswerRight() {
        var random = SeededRandom(seed: 7)
        let users = ["u1", "u2", "u", "u11", "U1", "", "\u{75}1 "]
        let scopes = ["food_logs:read", "foods:read", "glucose:read", "food_logs:write", "foods:read "]
        var accepted = 0
        for _ in 0..<20_000 {
            let user = users.randomElement(using: &random) ?? ""
            var list: [String] = []
            for _ in 0..<Int.random(in: 0...3, using: &random) { list.append(scopes.randomElement(using: &random) ?? "") }
            var members = [
                #""token":"ct-\#(Int.random(in: 0...99, using: &random))""#,
                #""expires_in":\#(Int.random(in: 55...70, using: &random))"#,
                #""end_user_id":"\#(user)""#, #""scopes":[\#(list.map { "\"\($0)\"" }.joined(separator: ","))]"#,
                #""expires_at":"x""#, #""extra":{"end_user_id":"u1","scopes":["food_logs:read","foods:read"]}"#,
            ]
            members.shuffle(using: &random)
            let text = "{\(members.joined(separator: ","))}"
            let isRight = user == "u1" && list.sorted() == terms.scopes
            if check(text) == nil {
                accepted += 1
                #expect(isRight, "\(text)")
            }
        }
        #expect(accepted > 20)
    }
}

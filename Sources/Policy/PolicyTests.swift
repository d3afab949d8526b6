import Configuration
import StrictJSON

/// `policy_tests`: the operator's own expectations of mapping and policy, run whenever the configuration is read. One that fails refuses
/// the configuration.
package struct PolicyTests {
    /// What a session with certain claims comes to, as far as mapping and policy decide it.
    package enum EndUser: Sendable, Equatable {
        case mapped(String)
        /// The `code` of the answer: `no_end_user` or `invalid_end_user_id`.
        case refused(code: String)
        /// The claims leave the person out: what names one is not among them.
        case unnamed(code: String)
        /// No verifier accepts these claims: what is wrong, for the problem at `claims`.
        case notAccepted(String)
    }

    private struct Test {
        let section: ConfigSection
        let name: String
        let claims: JSONObject
        var endUserID: String?
        var features: [String]?
        var scopes: [String]?
        var ttlSeconds: Int?
        var refused: Refusal?
    }

    /// `refused: true`, or with the code expected.
    private enum Refusal: Equatable {
        case no, anyCode
        case code(String)
    }

    private static let codes = ["no_end_user", "invalid_end_user_id", "no_features"]

    private var tests: [Test] = []

    package var count: Int { tests.count }

    /// Reads `policy_tests` at the root of the configuration.
    package static func read(_ root: ConfigSection) -> PolicyTests {
        var result = PolicyTests()
        for section in root.sections("policy_tests") {
            if let test = read(section) { result.tests.append(test) }
            section.finish()
        }
        return result
    }

    /// `nil` when a problem was recorded.
    private static func read(_ section: ConfigSection) -> Test? {
        let name = section.requiredString("name")
        let claims = section.value("claims") ?? .object(JSONObject())
        if claims.object == nil { section.invalid("claims", "must be a mapping of claims") }
        guard let expect = section.optionalSection("expect") else {
            section.problem("expect", "required")
            return nil
        }
        guard !expect.isBroken else { return nil }
        var test = Test(section: section, name: name ?? "", claims: claims.object ?? JSONObject())
        test.endUserID = expect.string("end_user_id")
        test.features = expect.optionalStrings("features")
        test.scopes = expect.optionalStrings("scopes")
        test.ttlSeconds = expect.optionalInteger("ttl_seconds", in: 1...Policy.ttlRange.upperBound)
        test.refused = refusal(expect)
        let expected = ["end_user_id", "features", "scopes", "ttl_seconds", "refused"].filter(expect.has)
        if expected.isEmpty {
            section.problem("expect", "must expect something: end_user_id, features, scopes, ttl_seconds or refused")
            return nil
        }
        if let refused = test.refused, refused != .no, expected.count > 1 {
            expect.problem("refused", "cannot be expected together with \(expected.dropLast().joined(separator: ", "))")
            return nil
        }
        return name == nil || claims.object == nil ? nil : test
    }

    private static func refusal(_ expect: ConfigSection) -> Refusal? {
        switch expect.value("refused") {
        case .bool(let refused)?: return refused ? .anyCode : .no
        case .string(let code)? where codes.contains(code): return .code(code)
        case nil: return nil
        default:
            expect.invalid("refused", "must be true, false or one of \(codes.joined(separator: ", "))")
            return nil
        }
    }

    /// Runs every test and records a problem at its line for each expectation that is not met.
    ///
    /// Who is refused gets no features and no scopes, whatever the policy says; but a test of these alone may leave the person out of its
    /// claims.
    ///
    /// `mapEndUser`: the configured mapping, with the namespace of the verifier these claims would come from.
    /// Returns how many tests failed.
    @discardableResult
    package func run(_ policy: Policy, mapEndUser: (JSONObject) -> EndUser) -> Int {
        var failed = 0
        for test in tests {
            let endUser = mapEndUser(test.claims)
            if case .notAccepted(let message) = endUser {
                test.section.problem("claims", "\(test.name): \(message)")
                failed += 1
                continue
            }
            let differences = Self.differences(test, endUser, policy.decide(test.claims))
            for difference in differences { test.section.problem(nil, "\(test.name): \(difference)") }
            if !differences.isEmpty { failed += 1 }
        }
        return failed
    }

    private static func differences(_ test: Test, _ endUser: EndUser, _ decided: Policy.Grant?) -> [String] {
        var differences: [String] = []
        func expect<Value: Equatable>(_ key: String, _ expected: Value?, _ actual: Value?, _ text: (Value) -> String) {
            guard let expected, actual != expected else { return }
            differences.append("expected \(key) \(text(expected)), got \(actual.map(text) ?? "none")\(refusal)")
        }
        func list(_ texts: [String]) -> String { "[\(texts.joined(separator: ", "))]" }

        var grant = decided
        var code: String? = grant == nil ? "no_features" : nil
        var endUserID: [UInt8]?
        var refusal = ""
        switch endUser {
        case .mapped(let text): endUserID = Array(text.utf8)
        case .unnamed(let unnamed): code = unnamed
        case .refused(let refused):
            code = refused
            grant = nil
            refusal = " (\(refused))"
        case .notAccepted: return []
        }
        switch test.refused {
        case .anyCode? where code == nil: differences.append("expected to be refused, got \(list(grant?.scopes ?? []))")
        case .code(let expected)? where code != expected:
            differences.append("expected to be refused with \(expected), got \(code ?? list(grant?.scopes ?? []))")
        case .no?:
            if let code { differences.append("expected not to be refused, got \(code)") }
        default: break
        }
        if let expected = test.endUserID, endUserID != Array(expected.utf8) {
            let actual = endUserID.map { "\"\(String(decoding: $0, as: UTF8.self))\"" } ?? code ?? "none"
            differences.append("expected end_user_id \"\(expected)\", got \(actual)")
        }
        expect("features", test.features.map { Set($0).sorted() }, (grant?.features ?? []).sorted(), list)
        expect("scopes", test.scopes.map { Set($0).sorted() }, (grant?.scopes ?? []).sorted(), list)
        expect("ttl_seconds", test.ttlSeconds, grant?.ttlSeconds) { String($0) }
        return differences
    }
}

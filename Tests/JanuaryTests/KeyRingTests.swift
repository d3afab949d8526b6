import Primitives
import Testing

@testable import January

@Suite struct APIKeyTests {
    @Test(
        arguments: [
            ("sk-a", nil), ("sk-" + String(repeating: "x", count: 509), nil),
            ("sk-" + String(repeating: "x", count: 510), .length),
            ("sk-", .length), ("", .empty), ("ct-abc", .clientToken), ("abc", .prefix), ("SK-abc", .prefix),
            ("sk-a b", .whiteSpace),
            ("sk-abc\n", .whiteSpace), (" sk-abc", .whiteSpace), ("sk-a\u{0}", .whiteSpace), ("sk-a\u{7F}", .whiteSpace),
            ("sk-é", .notASCII),
        ] as [(String, APIKeyProblem?)])
    func shapeIsChecked(text: String, expected: APIKeyProblem?) {
        #expect(throws: Never.self) {
            do throws(APIKeyProblem) {
                _ = try APIKey(Secret(text))
                #expect(expected == nil)
            } catch {
                #expect(error == expected)
            }
        }
    }

    @Test func keyIsShownAsItsFingerprintOnly() throws {
        // printf 'sk-abc' | sha256sum
        let key = try APIKey(Secret("sk-abc"))
        #expect(key.fingerprint == "1460db1b")
        #expect("\(key)" == "sk-… (1460db1b)")
    }
}

@Suite struct KeyRingTests {
    private static func key(_ text: String) throws -> APIKey { try APIKey(Secret("sk-\(text)")) }

    private static func ring(_ first: String, _ next: String?) throws -> KeyRing {
        KeyRing(first: try key(first), next: try next.map(key), userAgent: "t/1")
    }

    @Test func firstKeyIsCurrentAtTheStart() throws {
        let keys = try Self.ring("a", "b").keys
        #expect(keys.current.slot == .first)
        #expect(keys.other?.slot == .next)
    }

    @Test func sameKeyTwiceIsOneKey() throws {
        #expect(try Self.ring("a", "a").keys.other == nil)
        #expect(try Self.ring("a", nil).keys.other == nil)
    }

    @Test func otherKeyThatWorkedBecomesCurrentOnce() throws {
        let ring = try Self.ring("a", "b")
        let other = try #require(ring.keys.other)
        #expect(ring.worked(other))
        #expect(ring.keys.current === other)
        #expect(ring.keys.other?.slot == .first)
        #expect(!ring.worked(other))
    }

    @Test func currentKeyThatWorkedChangesNothing() throws {
        let ring = try Self.ring("a", "b")
        #expect(!ring.worked(ring.keys.current))
        #expect(ring.keys.current.slot == .first)
    }

    @Test func answerToAKeyThatWasReplacedChangesNothing() throws {
        let ring = try Self.ring("a", "b")
        let old = try #require(ring.keys.other)
        #expect(ring.replace(first: try Self.key("c"), next: try Self.key("d")))
        #expect(!ring.worked(old))
        #expect(try ring.keys.current.key == Self.key("c"))
    }

    /// The new key is put first, and the old one behind it, as a rotation goes.
    @Test func aNewFirstKeyIsUsedAtOnceThoughTheOldOneStillWorks() throws {
        let ring = try Self.ring("a", nil)
        #expect(ring.replace(first: try Self.key("b"), next: try Self.key("a")))
        #expect(try ring.keys.current.key == Self.key("b"))
        #expect(ring.keys.current.slot == .first)
    }

    @Test(
        arguments: [
            ("a", "b", "b", "c", "b", KeySlot.first), ("a", "b", "a", "b", "b", .next), ("a", "b", "a", "c", "a", .first),
            ("a", "b", "c", "b", "c", .first), ("a", "b", "b", nil, "b", .first), ("a", "b", "c", nil, "c", .first),
        ] as [(String, String, String, String?, String, KeySlot)])
    func currentKeyStaysCurrentWhileItIsConfigured(
        first: String, next: String, newFirst: String, newNext: String?, current: String, slot: KeySlot
    ) throws {
        let ring = try Self.ring(first, next)
        #expect(ring.worked(try #require(ring.keys.other)))
        let isSame = first == newFirst && next == newNext
        #expect(ring.replace(first: try Self.key(newFirst), next: try newNext.map(Self.key)) == !isSame)
        #expect(try ring.keys.current.key == Self.key(current))
        #expect(ring.keys.current.slot == slot)
    }
}

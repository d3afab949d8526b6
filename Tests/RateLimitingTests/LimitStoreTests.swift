import EventLoop
import GCRA
import Primitives
import TestSupport
import Testing

@testable import RateLimiting

private let second: Int64 = 1_000_000_000

@Suite struct LimitStoreTests {
    private let maker = LimitKeyMaker(processKey: (1, 2))
    private let rule = GCRARule(requests: 6, periodNanoseconds: 60 * second, burst: 3)

    private func key(_ number: Int) -> LimitKey { maker.endUser("person-\(number)") }
    private func at(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * second) }

    @Test func chargesAreAskedInOrderAndNothingIsChargedBehindTheFirstRefusal() {
        let store = MemoryLimitStore()
        let tight = GCRARule(requests: 6, periodNanoseconds: 60 * second, burst: 1)
        var charges = Charges()
        charges.append(Charge(.session, key: key(1), rule: rule))
        charges.append(Charge(.endUser, key: key(2), rule: tight))
        charges.append(Charge(.all, key: key(3), rule: rule))
        #expect(store.charge(charges, now: at(100)) == .allowed)
        #expect(store.charge(charges, now: at(100)) == .limited(.endUser, retryAfter: 10 * second))
        let left = [(LimitName.session, 1), (.endUser, 2), (.all, 3)].map {
            store.remaining(Charge($0, key: key($1), rule: rule), now: at(100))
        }
        #expect(left == [1, 2, 2])
        #expect(store.charge(charges, now: at(110)) == .allowed)
    }

    @Test func noChargeAtAllIsAllowed() {
        #expect(MemoryLimitStore().charge(Charges(), now: at(0)) == .allowed)
    }

    @Test func aPenaltyIsChargedWithoutBeingAsked() {
        let store = MemoryLimitStore()
        let charge = Charge(.address, key: key(1), rule: rule)
        #expect(store.charge(Charges(charge), now: at(5)) == .allowed)
        store.penalize(Charge(.address, key: key(1), rule: rule, cost: 2), now: at(5))
        #expect(store.charge(Charges(charge), now: at(5)) == .limited(.address, retryAfter: 10 * second))
    }

    /// An idle cell is as good as none: a key that comes back after its pause has its whole burst.
    @Test func aCellIsForgottenExactlyWhenItIsIdle() {
        var table = LimitTable(maxCells: 8)
        let charge = Charge(.endUser, key: key(0), rule: rule)
        for _ in 0..<3 { #expect(table.charge(charge, now: 0) == .allowed) }
        // Eight places, all for the taking of others once the first is idle.
        for number in 1..<200 { _ = table.charge(Charge(.endUser, key: key(number), rule: rule), now: 30 * second) }
        #expect(table.charge(charge, now: 30 * second) == .allowed)
    }

    @Test func aFloodOfOneTimeKeysPushesOutNoKeyInUse() {
        var table = LimitTable(maxCells: 1024)
        let burstOfOne = GCRARule(requests: 1, periodNanoseconds: 60 * second, burst: 1)
        // Blocked ones, one that was used twice, one that is blocked after one request and tries again.
        for number in 0..<50 {
            for _ in 0..<3 { _ = table.charge(Charge(.endUser, key: key(number), rule: rule), now: 0) }
            for _ in 0..<2 { _ = table.charge(Charge(.endUser, key: key(100 + number), rule: rule), now: 0) }
            for _ in 0..<2 { _ = table.charge(Charge(.session, key: key(200 + number), rule: burstOfOne), now: 0) }
        }
        for number in 1000..<101_000 {
            _ = table.charge(Charge(.endUser, key: key(number), rule: number.isMultiple(of: 2) ? rule : burstOfOne), now: second)
        }
        #expect(table.slots.count == 1024)
        #expect(table.evictions > 90_000)
        for number in 0..<50 {
            #expect(table.charge(Charge(.endUser, key: key(number), rule: rule), now: second) == .limited(retryAfter: 9 * second))
            #expect(table.cell(Charge(.endUser, key: key(100 + number), rule: rule).cell).theoreticalArrival == 20 * second)
            #expect(
                table.charge(Charge(.session, key: key(200 + number), rule: burstOfOne), now: second)
                    == .limited(retryAfter: 59 * second))
        }
    }

    @Test func aTableGrowsToItsBoundAndNoFurther() {
        var table = LimitTable(maxCells: 3900)
        var sizes: Set<Int> = []
        for number in 0..<3500 {
            #expect(table.charge(Charge(.endUser, key: key(number), rule: rule), now: 1) == .allowed)
            sizes.insert(table.slots.count)
        }
        // Ninety per cent full, and hardly anybody had to go.
        #expect(table.evictions < 35)
        for number in 3500..<20_000 { _ = table.charge(Charge(.endUser, key: key(number), rule: rule), now: 1) }
        #expect(sizes.min() == 16 && table.slots.count == 3896)
    }

    @Test func whatWasChargedSurvivesTheGrowingOfTheTable() {
        var table = LimitTable(maxCells: 100_000)
        for number in 0..<5000 {
            for _ in 0..<(number % 3 + 1) { _ = table.charge(Charge(.endUser, key: key(number), rule: rule), now: 7) }
        }
        #expect(table.evictions == 0)
        for number in 0..<5000 {
            #expect(
                table.cell(Charge(.endUser, key: key(number), rule: rule).cell).theoreticalArrival == 7 + Int64(number % 3 + 1)
                    * 10 * second)
        }
    }

    /// The bound of the whole store, in cells and so in bytes, whatever is asked of it.
    @Test func theStoreIsBounded() {
        let store = MemoryLimitStore(maxCells: 20_000)
        for number in 0..<200_000 {
            _ = store.charge(Charges(Charge(.address, key: key(number), rule: rule)), now: at(Int64(number % 2)))
        }
        #expect(store.usage.cells <= 20_000 && store.usage.cells > 18_000)
        #expect(MemoryLimitStore.bytesPerCell == 24)
    }

    /// Against a dictionary of cells, from several threads' worth of interleaved keys, with a clock that moves.
    @Test func aTableJudgesAsADictionaryWould() {
        var random = SeededRandom(seed: 11)
        var table = LimitTable(maxCells: 4096)
        var cells: [LimitKey: GCRACell] = [:]
        let keys = (0..<300).map(key)
        var now: Int64 = 0
        for _ in 0..<50_000 {
            now += Int64.random(in: 0...(second / 4), using: &random)
            let key = keys[Int.random(in: keys.indices, using: &random)]
            let charge = Charge(.endUser, key: key, rule: rule, cost: Int.random(in: 1...2, using: &random))
            if Int.random(in: 0..<10, using: &random) == 0 {
                table.penalize(charge, now: now)
                cells[key, default: GCRACell()].penalize(cost: charge.cost, now: now, rule: rule)
            } else {
                #expect(
                    table.charge(charge, now: now)
                        == cells[key, default: GCRACell()].charge(cost: charge.cost, now: now, rule: rule))
            }
        }
        #expect(table.evictions == 0)
    }

    // MARK: Keys

    /// The reference implementation's `vectors_sip128`, also by `openssl mac SIPHASH`: key 00…0f, input 00, 01, ….
    @Test func theDigestIsSipHash() {
        let key: (UInt64, UInt64) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908)
        #expect(SipHash128(key: key).finish() == (0xe6a8_25ba_047f_81a3, 0x9302_55c7_1472_f66d))
        let input = Array<UInt8>(0..<15)
        var hash = SipHash128(key: key)
        hash.append(input.span.bytes)
        let (first, second) = hash.finish()
        #expect(first == 0x11a8b03399e99354 && second == 0xd9c3cf970fec087e)
    }

    @Test func theDigestDoesNotDependOnHowTheInputIsCut() {
        let input = (0..<40).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        var whole = SipHash128(key: (3, 4))
        whole.append(input.span.bytes)
        let expected = whole.finish()
        for cut in 0...32 {
            var hash = SipHash128(key: (3, 4))
            for byte in input[..<cut] { hash.append(byte) }
            hash.append(input[cut..<(cut + 8)].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
            let rest = Array(input[(cut + 8)...])
            hash.append(rest.span.bytes)
            #expect(hash.finish() == expected, "\(cut)")
        }
    }

    static let makers = [LimitKeyMaker(processKey: (1, 2)), LimitKeyMaker(shared: Secret("0123456789abcdef0123456789abcdef"))]

    @Test(arguments: makers.indices)
    func everySpellingOfAnAddressIsOneKeyAndEveryOtherAddressAnother(index: Int) throws {
        let maker = Self.makers[index]
        func key(_ text: String) throws -> LimitKey { maker.address(try #require(IPAddress(text))) }
        #expect(try key("203.0.113.7") == key("::ffff:203.0.113.7"))
        #expect(try key("203.0.113.7") == key("::ffff:cb00:7107"))
        #expect(try key("2001:db8::7") == key("2001:DB8:0::7"))
        // IPv6 counts as its /64: both sides of the boundary.
        #expect(try key("2001:db8:0:1::") == key("2001:db8:0:1:ffff:ffff:ffff:ffff"))
        #expect(try key("2001:db8:0:1::") != key("2001:db8:0:2::"))
        #expect(try key("203.0.113.7") != key("203.0.113.8"))
        #expect(try key("0.0.0.4") != key("::4"))
        #expect(try key("0.0.0.0") != maker.unixPeer)
    }

    @Test(arguments: makers.indices)
    func keysOfDifferentLimitsAndPartsDiffer(index: Int) {
        let maker = Self.makers[index]
        let credential: [UInt8] = Array("b1".utf8)
        let keys = [
            maker.session(verifier: "a", id: "b1"), maker.session(verifier: "ab", id: "1"),
            maker.session(verifier: "", id: "ab1"),
            maker.session(verifier: "a", credential: credential[...]), maker.endUser("ab1"),
            maker.endUser("AB1"), maker.endUser("ab1 "), maker.all, maker.unixPeer,
        ]
        #expect(Set(keys).count == keys.count)
        // What replicas share is named by limit and digest: a person's digest is the one of the logs, whatever the limit.
        #expect((maker.endUser("ab1", limit: .selfService) == maker.endUser("ab1")) == (index == 1))
        #expect(
            maker.session(verifier: "a", credential: credential[...])
                == maker.session(verifier: "a", credential: ([0] + credential)[1...]))
    }

    /// Shared keys of one person are the same for every limit; the cells are not.
    @Test(arguments: makers.indices)
    func twoLimitsOfOnePersonAreTwoCells(index: Int) {
        let maker = Self.makers[index]
        let store = MemoryLimitStore()
        let once = GCRARule(requests: 1, periodNanoseconds: 60 * second, burst: 1)
        let mint = Charge(.endUser, key: maker.endUser("a"), rule: once)
        let signOut = Charge(.selfService, key: maker.endUser("a", limit: .selfService), rule: once)
        #expect(store.charge(Charges(mint), now: at(1)) == .allowed)
        #expect(store.charge(Charges(signOut), now: at(1)) == .allowed)
        #expect(store.charge(Charges(signOut), now: at(1)) == .limited(.selfService, retryAfter: 60 * second))
    }

    @Test func processesHaveKeysOfTheirOwnAndReplicasWithOneSecretTheSame() {
        #expect(LimitKeyMaker().endUser("a") != LimitKeyMaker().endUser("a"))
        let secret = Secret("0123456789abcdef0123456789abcdef")
        #expect(LimitKeyMaker(shared: secret).endUser("a") == LimitKeyMaker(shared: secret).endUser("a"))
        #expect(LimitKeyMaker(shared: secret).endUser("a") != LimitKeyMaker(shared: Secret("another")).endUser("a"))
    }
}

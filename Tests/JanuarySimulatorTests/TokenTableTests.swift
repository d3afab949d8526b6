import Primitives
import TestSupport
import Testing

@testable import JanuarySimulator

@Suite struct TokenTableTests {
    @Test func aFullTableForgetsItsOldestToken() {
        var table = TokenTable(capacity: 6, seed: 7)
        let now = WallInstant(secondsSinceEpoch: 0)
        let tokens = (1...11).map {
            String(
                decoding: table.mint(
                    user: "u\($0 % 2)", scopes: ScopeSet([.foodsRead]), now: now, lifetime: .seconds(300), request: $0),
                as: UTF8.self)
        }
        #expect(Set(tokens).count == 11)
        #expect(table.mintedCount == 11)
        #expect(table.all().map(\.request) == [6, 7, 8, 9, 10, 11])
        #expect(tokens.map { table.find($0)?.request } == [nil, nil, nil, nil, nil, 6, 7, 8, 9, 10, 11])
        #expect(table.tokens(of: "u1").map(\.request) == [7, 9, 11])
        #expect(table.revoke(user: "u1", now: now, limit: 2, sparing: nil) == 2)
        #expect(table.tokens(of: "u1").map { $0.revoked != nil } == [false, true, true])
        #expect(table.revoke(user: "u1", now: now, limit: 500, sparing: nil) == 1)
        #expect(table.revoke(user: "u1", now: now, limit: 500, sparing: nil) == 0)
        #expect(table.revoke(user: "u0", now: now, limit: 500, sparing: nil) == 3)
    }

    /// Against a plain list of everything ever minted.
    @Test(arguments: [1, 2, 3] as [UInt64])
    func theTableAgreesWithAPlainListWhateverHappens(seed: UInt64) {
        struct Known {
            let token: String
            let user: String
            let expires: WallInstant
            var isRevoked = false
        }
        var random = SeededRandom(seed: seed)
        let capacity = 50
        var table = TokenTable(capacity: capacity, seed: seed)
        var list: [Known] = []
        var now = WallInstant(secondsSinceEpoch: 0)
        let settings = SimulatorSettings()
        for step in 0..<800 {
            now = now + .seconds(Int64.random(in: 0...20, using: &random))
            let user = "u\(Int.random(in: 0..<5, using: &random))"
            if Int.random(in: 0..<10, using: &random) < 8 {
                let token = table.mint(
                    user: user, scopes: ScopeSet([.foodsRead]), now: now, lifetime: .seconds(300), request: step)
                list.append(Known(token: String(decoding: token, as: UTF8.self), user: user, expires: now + .seconds(300)))
                if list.count > capacity { list.removeFirst() }
            } else {
                let limit = Int.random(in: 1...4, using: &random)
                let live = list.indices.reversed().filter {
                    list[$0].user == user && !list[$0].isRevoked && list[$0].expires > now
                }
                #expect(table.revoke(user: user, now: now, limit: limit, sparing: nil) == min(limit, live.count))
                for index in live.prefix(limit) { list[index].isRevoked = true }
            }
            #expect(table.tokens(of: user).map(\.token) == list.filter { $0.user == user }.map(\.token))
            #expect(
                table.live(of: user, now: now, settings: settings).map(\.token)
                    == list.filter { $0.user == user && !$0.isRevoked && $0.expires > now }.map(\.token))
        }
    }
}

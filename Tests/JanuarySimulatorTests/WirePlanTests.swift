import JanuarySimulator
import Primitives
import Testing

@testable import JanuarySimulator

@Suite struct WirePlanTests {
    private static let answer = Answer(200, [Answer.Member("ok", true)])
    private static let text =
        "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Type: application/json; charset=utf-8\r\nX-Request-Id: r\r\nContent-Length: 11\r\n\r\n{\"ok\":true}"

    private func after(_ fault: Fault, closes: Bool = false, isHead: Bool = false) -> [WireStep] {
        WirePlan.steps(after: fault, Self.answer, requestID: "r", date: "D", closes: closes, isHead: isHead)
    }

    @Test func withoutAFaultAnAnswerIsOneWrite() {
        #expect(WirePlan.steps(before: Fault()) == [.commit])
        #expect(after(Fault()) == [.write(Array(Self.text.utf8)), .end(.next(idleClose: nil))])
    }

    @Test func aClosingAnswerSaysSo() {
        let text = Self.text.replacing("11\r\n", with: "11\r\nConnection: close\r\n")
        #expect(after(Fault(), closes: true) == [.write(Array(text.utf8)), .end(.close)])
    }

    @Test func anAnswerToHeadHasItsLengthAndNoContent() {
        #expect(after(Fault(), isHead: true) == [.write(Array(Self.text.utf8.dropLast(11))), .end(.next(idleClose: nil))])
    }

    @Test(arguments: [
        (Fault.Disruption.resetBeforeCommit, [WireStep.end(.reset)]), (.closeBeforeCommit, [.end(.close)]),
        (.hangBeforeCommit, [.end(.hang)]), (.holdBeforeCommit, [.hold, .commit]), (.resetAfterCommit, [.commit]),
        (.closeAfterCommit, [.commit]), (.hangAfterCommit, [.commit]), (.holdAfterCommit, [.commit]),
    ])
    func whatComesBeforeTheWork(disruption: Fault.Disruption, steps: [WireStep]) {
        #expect(WirePlan.steps(before: .disrupted(disruption)) == steps)
        let delayed = Fault.with {
            $0.disruption = disruption
            $0.delayBeforeCommit = .seconds(1)
        }
        #expect(WirePlan.steps(before: delayed) == [.wait(.seconds(1))] + steps)
    }

    @Test(arguments: [
        (Fault.Disruption.resetAfterCommit, WireStep.end(.reset)), (.closeAfterCommit, .end(.close)),
        (.hangAfterCommit, .end(.hang)),
    ])
    func whatComesAfterTheWork(disruption: Fault.Disruption, step: WireStep) {
        let delayed = Fault.with {
            $0.disruption = disruption
            $0.delay = .seconds(1)
        }
        #expect(after(delayed) == [.wait(.seconds(1)), step])
    }

    @Test func aDripIsPiecesWithPausesBetween() {
        let steps = after(
            .with {
                $0.wire.drip = Fault.Drip(bytes: 4, every: .milliseconds(3))
                $0.wire.truncateAt = 10
            })
        let pause = WireStep.wait(.milliseconds(3))
        #expect(
            steps == [
                .write(Array("HTTP".utf8)), pause, .write(Array("/1.1".utf8)), pause, .write(Array(" 2".utf8)), .end(.close),
            ])
    }

    @Test(arguments: 0...Self.text.utf8.count + 1)
    func aCutKeepsExactlyItsBytes(cut: Int) {
        let bytes = Array(Self.text.utf8.prefix(cut))
        #expect(after(.truncated(at: cut)) == (bytes.isEmpty ? [] : [.write(bytes)]) + [.end(.close)])
    }

    @Test func anIdleCloseIsOneInstantBetweenItsBounds() {
        var plan = FaultPlan()
        let range = Duration.milliseconds(10)...Duration.milliseconds(20)
        _ = plan.add(FaultRule(.idleClose(after: range), on: nil, times: nil), seed: 5)
        var seen: Set<Duration> = []
        for _ in 0..<50 {
            guard let idle = plan.take(for: .mint)?.idleClose else { continue }
            #expect(idle.after.lowerBound == idle.after.upperBound)
            #expect(range.contains(idle.after.lowerBound))
            seen.insert(idle.after.lowerBound)
        }
        #expect(seen.count > 40)
    }

    @Test func theFirstFaultThatFitsIsTakenAlone() {
        var plan = FaultPlan()
        _ = plan.add(FaultRule(.refused(500, "a"), on: .revoke), seed: 1)
        _ = plan.add(FaultRule(.refused(500, "b"), on: nil, times: 2), seed: 1)
        _ = plan.add(FaultRule(.refused(500, "c"), on: .mint), seed: 1)
        let codes = [Operation.mint, .revoke, .credits, .mint, .mint].map { plan.take(for: $0)?.content.refusal?.code }
        #expect(codes == ["b", "a", "b", "c", nil])
        #expect(plan.entries.isEmpty)
    }
}

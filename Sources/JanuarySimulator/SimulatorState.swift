import HTTPMessage
import JOSE
import Primitives
import StrictJSON

/// Everything that may change, behind one lock: the loop answers from it while tests read and change it.
package struct SimulatorState: Sendable {
    package internal(set) var january: JanuarySide
    package internal(set) var ledger: Ledger
    package internal(set) var faults = FaultPlan()
    package internal(set) var identity: IdentityProvider
    /// Added to the time source's wall clock.
    package internal(set) var clockOffset: Duration = .zero
    package internal(set) var connections = ConnectionCounts()
    /// `Cache-Control` of the identity provider's documents.
    package internal(set) var documentCacheControl: String?
    private var random: SplitMix
    private var dateSecond = Int64.min
    private var dateText = ""

    package struct ConnectionCounts: Sendable, Equatable {
        package internal(set) var accepted = 0
        package internal(set) var open = 0
    }

    init(_ configuration: Simulator.Configuration, seed: UInt64) {
        january = JanuarySide(settings: configuration.settings, tokenCapacity: configuration.tokenCapacity, seed: seed)
        ledger = Ledger(capacity: configuration.ledgerCapacity)
        identity = IdentityProvider(issuer: configuration.issuer ?? "", sharedSecret: configuration.sharedSecret)
        random = SplitMix(seed: ~seed)
    }

    /// A request that has arrived: what it asks for, what will go wrong with it, its place in the ledger.
    struct Arrival: Sendable {
        let number: Int
        let requestID: String
        let match: Routes.Match
        let operation: Operation
        let request: JanuaryRequest
        /// Scheme and authority the client used, for URLs in documents.
        let origin: String
        var fault: Fault?
    }

    mutating func arrive(
        _ head: RequestHead, body: [UInt8], connection: Int, origin: String, now: WallInstant
    ) -> Arrival {
        let path = head.target.path
        let method = head.method.text
        let match = Routes.match(method: method, path: path)
        let operation: Operation = if case .operation(let operation) = match { operation } else { .unknown }
        let fault = faults.take(for: operation)
        let requestID = newID("req_")
        let number = ledger.nextNumber
        ledger.append(
            RecordedRequest(
                number: number, connection: connection, received: now, operation: operation, method: head.method,
                target: head.target, fields: head.fields, body: body, requestID: requestID))
        let users = [FieldName.januaryEndUserID, .xEndUserID].flatMap { head.fields.values($0) }
        return Arrival(
            number: number, requestID: requestID, match: match, operation: operation,
            request: JanuaryRequest(
                method, path, authorization: head.fields.values(.authorization).map { String(decoding: $0, as: UTF8.self) },
                endUserIDs: users.map { String(decoding: $0, as: UTF8.self) }, body: body),
            origin: origin, fault: fault)
    }

    /// Does the work of a request, unless its fault skips it, and says what is to be answered.
    mutating func perform(_ arrival: Arrival, now: WallInstant) -> Answer {
        let content = arrival.fault?.content ?? Fault.Content()
        var answer: Answer
        let worked = arrival.fault?.skipsWork != true
        if let refusal = content.refusal {
            answer = .failure(
                refusal.status, refusal.code, refusal.message ?? "a fault on command", retryAfter: refusal.retryAfter)
        } else if let location = content.location {
            answer = Answer(307, [])
            answer.content = .bytes([])
            answer.location = location
        } else if !worked {
            answer = Answer(500, [])
        } else {
            answer = work(arrival, content, now)
        }
        // A refusal of January's own changes nothing; a revocation that stopped half-way does.
        let committed = worked && (answer.isSuccess || answer.code == "client_token_revocation_incomplete")
        answer.apply(content)
        ledger.update(
            arrival.number, arrival.operation, Self.outcome(arrival.fault, answer), committed: committed,
            token: answer.mintedToken)
        return answer
    }

    private mutating func work(_ arrival: Arrival, _ content: Fault.Content, _ now: WallInstant) -> Answer {
        switch arrival.operation {
        case .discovery: document(identity.discovery(keySetURL: arrival.origin + "/idp/jwks.json"))
        case .keySet: document(identity.keySet)
        default: january.answer(arrival.match, arrival.request, fault: content, now: now, number: arrival.number)
        }
    }

    private func document(_ object: JSONObject) -> Answer {
        var answer = Answer(200, object)
        answer.contentType = "application/json"
        if let documentCacheControl { answer.fieldLines = ["Cache-Control: " + documentCacheControl] }
        return answer
    }

    private static func outcome(_ fault: Fault?, _ answer: Answer) -> Outcome {
        switch fault?.disruption {
        case nil, .holdBeforeCommit, .holdAfterCommit: .answered(status: answer.status, code: answer.code)
        case let disruption?: .disrupted(disruption)
        }
    }

    /// Records what will never be answered.
    mutating func abandon(_ arrival: Arrival) {
        guard let disruption = arrival.fault?.disruption else { return }
        ledger.update(arrival.number, arrival.operation, .disrupted(disruption), committed: false, token: nil)
    }

    /// 64 random bits in hexadecimal.
    mutating func newID(_ prefix: String) -> String {
        var word = random.next()
        var text = Array(prefix.utf8)
        for _ in 0..<16 {
            let digit = UInt8(truncatingIfNeeded: word >> 60)
            text.append(digit < 10 ? 0x30 + digit : 0x57 + digit)
            word <<= 4
        }
        return String(decoding: text, as: UTF8.self)
    }

    mutating func newSeed() -> UInt64 { random.next() }

    /// The `Date` of an answer; written anew when the second changes.
    mutating func date(_ now: WallInstant) -> String {
        if now.secondsSinceEpoch != dateSecond {
            dateSecond = now.secondsSinceEpoch
            var bytes: [UInt8] = []
            HTTPDate.append(now, to: &bytes)
            dateText = String(decoding: bytes, as: UTF8.self)
        }
        return dateText
    }
}

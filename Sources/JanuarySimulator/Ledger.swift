import HTTPMessage
import Primitives
import StrictJSON

/// What became of a request.
package enum Outcome: Sendable, Equatable {
    /// Received; the answer is still to come (a delay, a hold).
    case pending
    case answered(status: Int, code: String?)
    case disrupted(Fault.Disruption)
}

/// One request to January or to the identity provider, as it came.
package struct RecordedRequest: Sendable {
    /// Counted from 1 since the start, whatever was reset or forgotten.
    package let number: Int
    /// Number of the connection it came on, from 1.
    package let connection: Int
    package let received: WallInstant
    package let operation: Operation
    package let method: Method
    package let target: RequestTarget
    package let fields: Fields
    /// Content, without transfer coding.
    package let body: [UInt8]
    /// The `X-Request-Id` of its answer.
    package let requestID: String
    /// January's work was done (a token minted, tokens revoked), whether or not anybody heard of it.
    package internal(set) var committed = false
    /// The token that was minted for it.
    package internal(set) var mintedToken: String?
    package internal(set) var outcome = Outcome.pending

    package var bodyText: String { String(decoding: body, as: UTF8.self) }
    package var json: JSONValue? { try? JSONValue.parse(body.span.bytes) }

    /// The value of the field if there is exactly one line of it.
    package func field(_ name: FieldName) -> String? { fields.string(name) }
}

/// The newest `capacity` requests, and counts that forget nothing.
package struct Ledger: Sendable {
    package struct Counts: Sendable, Equatable {
        package internal(set) var received = 0
        package internal(set) var committed = 0
        /// Answered with a status of 2xx, whatever a fault made of the bytes.
        package internal(set) var succeeded = 0
    }

    private let capacity: Int
    /// A ring: the entry of number `n` lies at `n % capacity`.
    private var entries: [RecordedRequest] = []
    package private(set) var lastNumber = 0
    /// Entries up to this number were cleared.
    private var clearedThrough = 0
    private var counts: [Operation: Counts] = [:]

    init(capacity: Int) { self.capacity = max(1, capacity) }

    /// The number the next request will get.
    var nextNumber: Int { lastNumber + 1 }

    mutating func append(_ entry: RecordedRequest) {
        lastNumber = entry.number
        let index = (entry.number - 1) % capacity
        if index < entries.count { entries[index] = entry } else { entries.append(entry) }
        counts[entry.operation, default: Counts()].received += 1
    }

    /// Changes the entry of that number, if it is still here.
    mutating func update(_ number: Int, _ operation: Operation, _ outcome: Outcome, committed: Bool, token: String?) {
        if committed { counts[operation, default: Counts()].committed += 1 }
        if case .answered(200...299, _) = outcome { counts[operation, default: Counts()].succeeded += 1 }
        let index = (number - 1) % capacity
        guard index < entries.count, entries[index].number == number else { return }
        entries[index].outcome = outcome
        if committed { entries[index].committed = true }
        if let token { entries[index].mintedToken = token }
    }

    package func counts(of operation: Operation) -> Counts { counts[operation] ?? Counts() }

    /// What is still here, oldest first.
    package func requests(of operation: Operation? = nil, after number: Int = 0) -> [RecordedRequest] {
        let first = max(1, lastNumber - capacity + 1, number + 1, clearedThrough + 1)
        guard first <= lastNumber else { return [] }
        return (first...lastNumber).map { entries[($0 - 1) % capacity] }
            .filter { operation == nil || $0.operation == operation }
    }

    /// Forgets entries and counts; numbers go on.
    mutating func clear() {
        clearedThrough = lastNumber
        counts = [:]
    }
}

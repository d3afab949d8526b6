import Primitives

/// Which requests a fault strikes, and how often.
package struct FaultRule: Sendable, Equatable {
    /// `nil`: every operation.
    package var operation: Operation?
    /// `nil`: until it is taken away.
    package var remaining: Int?
    /// Chance that it strikes a request it fits; one that is spared is not counted.
    package var probability: Double
    package var fault: Fault

    package init(_ fault: Fault, on operation: Operation?, times: Int? = 1, probability: Double = 1) {
        self.fault = fault
        self.operation = operation
        remaining = times
        self.probability = probability
    }
}

/// The faults in force, in the order they were given: the first that fits and strikes is taken, alone.
package struct FaultPlan: Sendable {
    package struct Entry: Sendable {
        package let id: Int
        package fileprivate(set) var rule: FaultRule
        package fileprivate(set) var struck = 0
        fileprivate var random: SplitMix
    }

    package private(set) var entries: [Entry] = []
    /// New connections are accepted and then never read.
    package var ignoresConnections = false
    private var nextID = 1

    init() {}

    mutating func add(_ rule: FaultRule, seed: UInt64) -> Int {
        defer { nextID += 1 }
        entries.append(Entry(id: nextID, rule: rule, random: SplitMix(seed: seed)))
        return nextID
    }

    /// - Returns: whether there was one of that number.
    mutating func remove(id: Int) -> Bool {
        let count = entries.count
        entries.removeAll { $0.id == id }
        return entries.count < count
    }

    mutating func removeAll() {
        entries.removeAll()
        ignoresConnections = false
    }

    /// The fault that strikes this request; its number of uses goes down by one. An ``Fault/IdleClose`` comes back as one instant.
    mutating func take(for operation: Operation) -> Fault? {
        guard !entries.isEmpty else { return nil }
        for index in entries.indices {
            let rule = entries[index].rule
            guard rule.operation == nil || rule.operation == operation else { continue }
            if rule.probability < 1, entries[index].random.unit() >= rule.probability { continue }
            var fault = rule.fault
            if let idle = fault.idleClose {
                let share = entries[index].random.unit()
                let span = (idle.after.upperBound - idle.after.lowerBound).fractionalSeconds
                let after = idle.after.lowerBound + .nanoseconds(Int64(span * share * 1e9))
                fault.idleClose?.after = after...after
            }
            entries[index].struck += 1
            if let remaining = rule.remaining {
                entries[index].rule.remaining = remaining - 1
                if remaining <= 1 { entries.remove(at: index) }
            }
            return fault
        }
        return nil
    }
}

extension SplitMix {
    /// 0 up to but not including 1.
    fileprivate mutating func unit() -> Double { Double(next() >> 11) * 0x1p-53 }
}

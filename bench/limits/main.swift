import Glibc

func processorTime() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// 300 rounds over 10,000 callers; the shortest round is what it costs undisturbed.
func measure(_ what: String, _ body: (Int, MonotonicInstant) -> Bool) {
    var rounds: [Double] = []
    var now: Int64 = 1_000_000_000_000
    var count = 0
    for _ in 0..<300 {
        let begin = processorTime()
        for caller in 0..<10_000 {
            now += 1000
            if body(caller, MonotonicInstant(nanoseconds: now)) { count += 1 }
        }
        rounds.append(Double(processorTime() - begin) / 10_000)
    }
    rounds.sort()
    print("\(what): shortest \(Int(rounds[0])) ns, median \(Int(rounds[150])) ns, \(count) times yes")
}

func run() {
    let store = MemoryLimitStore()
    let keys = LimitKeyMaker()
    let second: Int64 = 1_000_000_000
    // Generous, so that every request is let through and asks all four.
    let rule = GCRARule(requests: 1_000_000, periodNanoseconds: second, burst: 1_000_000)
    let sessions = (0..<10_000).map { "0190f5a2-7c11-7a3e-9b1c-\(100_000_000_000 + $0)" }
    let users = (0..<10_000).map { "acme-\(10_000_000_000_000_000 + $0)" }
    let verifier = "jwt"

    measure("four keys") { caller, _ in
        keys.address(.v4(UInt32(truncatingIfNeeded: caller))) != keys.session(verifier: verifier, id: sessions[caller])
            && keys.endUser(users[caller]) != keys.all
    }
    measure("four decisions with their keys") { caller, now in
        let first = Charges(Charge(.address, key: keys.address(.v4(UInt32(truncatingIfNeeded: caller))), rule: rule))
        var others = Charges()
        others.append(Charge(.session, key: keys.session(verifier: verifier, id: sessions[caller]), rule: rule))
        others.append(Charge(.endUser, key: keys.endUser(users[caller]), rule: rule))
        others.append(Charge(.all, key: keys.all, rule: rule))
        return store.charge(first, now: now) == .allowed && store.charge(others, now: now) == .allowed
    }
}

/// Resident memory of this process, in bytes.
func resident() -> Int {
    var text = [UInt8](repeating: 0, count: 256)
    let file = open("/proc/self/statm", O_RDONLY)
    defer { close(file) }
    let count = read(file, &text, text.count)
    let fields = text.prefix(max(0, count)).split(separator: UInt8(ascii: " "))
    guard fields.count > 1 else { return 0 }
    return fields[1].reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) } * Int(sysconf(Int32(_SC_PAGESIZE)))
}

/// So many callers, each with an address, a session and an end user of its own, all in use at once under the default limits.
func measureMemory(callers: Int) {
    let keys = LimitKeyMaker()
    let second: Int64 = 1_000_000_000
    let rules = [(600, 600), (6, 10), (12, 30)].map { GCRARule(requests: $0, periodNanoseconds: 60 * second, burst: $1) }
    let sessions = (0..<callers).map { "session-of-caller-\(1_000_000 + $0)" }
    let users = (0..<callers).map { "acme-user-number-\(1_000_000 + $0)" }
    let before = resident()
    let store = MemoryLimitStore()
    let start: Int64 = 1_000_000_000_000
    var rounds: [Double] = []
    // Twice within a second, so that no cell is idle in between; one caller's decisions are two questions of one and two charges.
    for round in 0..<2 {
        let begin = processorTime()
        for caller in 0..<callers {
            let now = MonotonicInstant(nanoseconds: start + Int64(round) * second / 2 + Int64(caller) * 1000)
            var charges = Charges()
            charges.append(Charge(.session, key: keys.session(verifier: "jwt", id: sessions[caller]), rule: rules[1]))
            charges.append(Charge(.endUser, key: keys.endUser(users[caller]), rule: rules[2]))
            _ = store.charge(Charges(Charge(.address, key: keys.address(.v4(UInt32(truncatingIfNeeded: caller))), rule: rules[0])), now: now)
            _ = store.charge(charges, now: now)
        }
        rounds.append(Double(processorTime() - begin) / Double(callers))
    }
    let grown = resident() - before
    let usage = store.usage
    print(
        "\(callers) callers: \(usage.cells) places of \(MemoryLimitStore.bytesPerCell) bytes, \(grown / 1_000_000) MB more resident, "
            + "\(grown / callers) bytes each, \(usage.evictions) pushed out; first mint \(Int(rounds[0])) ns, second \(Int(rounds[1])) ns")
}

if CommandLine.arguments.count > 1, let callers = Int(CommandLine.arguments[1]) {
    measureMemory(callers: callers)
} else {
    run()
}

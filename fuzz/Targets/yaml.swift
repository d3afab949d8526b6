import Configuration
import EndUsers
import January
import Policy
import Primitives
import Sessions
import StrictJSON
import Telemetry

// A configuration file through the readers of its sections: every problem has a place, and what is in force, printed and read again, is
// the same configuration without problems.

private struct Read {
    let reader: ConfigReader

    /// As the root of the configuration does it.
    init(_ bytes: [UInt8]) {
        reader = ConfigReader.parse(bytes, environment: ["JANUARY_API_KEY": "sk-0123456789abcdefghij"])
        let root = reader.root
        let endUserSection = root.section("end_user_id")
        let sessions = SessionsConfig.read(
            root.section("sessions"), endUserClaim: endUserSection.has("from") ? endUserSection.string("from") : nil)
        let january = JanuaryConfig.read(root)
        _ = Policy.read(root, ttlSeconds: january?.ttlSeconds ?? 1800)
        _ = EndUserMapping.read(
            endUserSection,
            verifiers: sessions.verifiers.map {
                EndUserMapping.Verifier(
                    name: $0.name, namespace: $0.namespace, hasExplicitNamespace: $0.hasExplicitNamespace,
                    prefix: $0.endUserPrefix)
            })
        _ = PolicyTests.read(root)
        _ = LogConfig.read(root.section("log"))
        _ = root.strings("trusted_proxies")
        _ = root.integer("max_connections", default: 10_000, in: 1...1_000_000)
        _ = root.integerUnlessFalse("max_connections_per_address", in: 1...1_000_000)
        _ = root.section("drain").seconds("delay_seconds", default: .seconds(5), in: .zero ... .seconds(3600))
        for name in ["end_user_id", "drain"] { root.section(name).finish() }
        root.finish()
    }
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    // Names of files are read, and must not lead out of what was made for this.
    if text(bytes).contains("/dev/") || text(bytes).contains("/proc/") || text(bytes).contains("/sys/") { return 0 }
    let first = Read(bytes)
    let problems = first.reader.problems
    for problem in problems {
        require(!"\(problem)".isEmpty, "a problem without a text")
        require(!"\(problem)".utf8.contains { $0 < 0x20 || $0 == 0x7F }, "a control character in a message: \(problem)")
        require(!"\(problem)".contains("0123456789abcdefghij"), "the key in a message")
    }
    // What is in force is asked for whatever is wrong with it.
    let printed = first.reader.printed()
    require(!printed.contains("0123456789abcdefghij"), "the key in print")
    guard problems.isEmpty else { return 0 }
    let second = Read(Array(printed.utf8))
    // Secrets are printed as `<redacted>`; files that are named are the same ones.
    let remaining = second.reader.problems.filter { !"\($0)".contains("redacted") && !"\($0)".contains("_file") }
    require(remaining.isEmpty || printed.contains("<redacted>"), "printed and read again: \(remaining)\n\(printed)")
    guard remaining.isEmpty, second.reader.problems.isEmpty else { return 0 }
    // A key that was a default and is written out now may stand in another place of its section.
    let (once, again) = (strip(printed).sorted(), strip(second.reader.printed()).sorted())
    require(again == once, "printed twice: \(again.difference(from: once))")
    return 0
}

/// Without the notes that say where each line comes from.
private func strip(_ printed: String) -> [String] {
    printed.split(separator: "\n").map { line in
        let text = line.range(of: "  # ").map { line[..<$0] } ?? line
        let rest = text.drop { $0 == " " }
        // The first key of an item stands behind its dash.
        return rest.hasPrefix("- ") && rest.contains(": ")
            ? String(repeating: " ", count: text.count - rest.count + 2) + rest.dropFirst(2) : String(text)
    }
}

extension Substring {
    /// Where `needle` stands last.
    fileprivate func range(of needle: String) -> Index? {
        let own = Array(utf8)
        let wanted = Array(needle.utf8)
        guard own.count >= wanted.count else { return nil }
        for start in (0...own.count - wanted.count).reversed() where own[start..<start + wanted.count].elementsEqual(wanted) {
            return utf8.index(startIndex, offsetBy: start)
        }
        return nil
    }
}

import Foundation
import HTTPMessage
import TestSupport
import Testing

/// One raw request of the shared corpus and what a server has to do with it.
struct CorpusCase: Decodable {
    let id: String
    let level: String
    let expectation: String
    let raw_request_base64: String
    var min_responses: Int?
    var max_responses: Int?
    var also_ok: [Int]?
    var forbid_status: [Int]?
    var half_close: Bool?
    var forbid_2xx: Bool?

    var bytes: [UInt8] { Data(base64Encoded: raw_request_base64).map { Array($0) } ?? [] }

    /// `nil` where the shared corpora are not here.
    static func load() throws -> [CorpusCase]? {
        guard let folder = Corpora.folder else { return nil }
        return try Data(contentsOf: folder.appendingPathComponent("http1-cases.jsonl")).split(separator: 0x0A)
            .map { try JSONDecoder().decode(CorpusCase.self, from: $0) }
    }
}

/// The smallest server around the parsers: 200 for every method it knows, the parser's status and the end for what is refused.
struct OfflineServer: Equatable {
    private(set) var statuses: [Int] = []
    private(set) var informational: [Int] = []
    private(set) var isClosed = false
    private var buffer: [UInt8] = []
    private var parser = RequestHeadParser(limits: .standard)
    private var current: (head: RequestHead, decoder: BodyDecoder)?

    mutating func receive(_ bytes: some Sequence<UInt8>) {
        buffer += bytes
        do {
            while !isClosed, try step() {}
        } catch {
            statuses.append(error.status)
            isClosed = true
        }
    }

    /// The client sends no more: what is not complete is dropped without an answer.
    mutating func end() { isClosed = true }

    private mutating func step() throws(HTTPParseError) -> Bool {
        let received = buffer
        if case (let head, var decoder)? = current {
            var content: [UInt8] = []
            let progress = try decoder.decode(received.span.bytes, into: &content)
            buffer.removeFirst(progress.consumed)
            current = (head, decoder)
            guard progress.isComplete else { return false }
            current = nil
            parser.reset()
            statuses.append(status(head))
            if !head.isPersistent { isClosed = true }
            return true
        }
        guard let parsed = try parser.parse(received.span.bytes) else { return false }
        buffer.removeFirst(parsed.byteCount)
        if parsed.head.expectsContinue { informational.append(100) }
        current = (parsed.head, BodyDecoder(framing: parsed.head.framing, limits: .standard, discards: true))
        return true
    }

    private func status(_ head: RequestHead) -> Int {
        switch head.method {
        case .get, .head, .post, .put, .delete, .options, .patch: 200
        case .connect, .trace: 405
        case .other: 501
        }
    }

    static func == (left: Self, right: Self) -> Bool {
        left.statuses == right.statuses && left.informational == right.informational && left.isClosed == right.isClosed
    }
}

@Suite struct CorpusTests {
    static let isPresent = (try? CorpusCase.load()) ?? nil != nil

    private static let refusals: Set<Int> = [400, 413, 414, 417, 431, 501, 505]

    /// `nil`: as expected. The judgement of the corpus's own runner.
    private static func fault(_ row: CorpusCase, _ server: OfflineServer) -> String? {
        let statuses = server.statuses
        let also = row.also_ok ?? []
        let success = statuses.contains { (200..<300).contains($0) }
        let seen = "\(statuses) \(server.isClosed ? "closed" : "open")"
        switch row.expectation {
        case "reject-4xx":
            if success { return "\(seen): served" }
            if let first = statuses.first, refusals.contains(first) || also.contains(first) { return nil }
            return server.isClosed ? nil : "\(seen): neither refused nor closed"
        case "accept":
            guard let first = statuses.first else { return "\(seen): no answer" }
            if (row.forbid_status ?? []).contains(where: { $0 == first || server.informational.contains($0) }) {
                return "\(seen): forbidden"
            }
            if [400, 500].contains(first), !also.contains(first) { return "\(seen): refused" }
            if statuses.count < row.min_responses ?? 1, !also.contains(first) { return "\(seen): too few answers" }
            if let most = row.max_responses, statuses.count > most { return "\(seen): too many answers" }
            return nil
        case "close":
            guard server.isClosed else { return "\(seen): not closed" }
            if statuses.count > row.max_responses ?? 1 { return "\(seen): too many answers" }
            if statuses.count < row.min_responses ?? 0 { return "\(seen): too few answers" }
            if row.forbid_2xx == true, success { return "\(seen): served" }
            if row.min_responses ?? 0 > 0, let first = statuses.first, [400, 500].contains(first) { return "\(seen): refused" }
            return nil
        default: return "unknown expectation \(row.expectation)"
        }
    }

    private static func run(_ row: CorpusCase, pieces: Int) -> OfflineServer {
        var server = OfflineServer()
        var rest = row.bytes[...]
        while !rest.isEmpty, !server.isClosed {
            server.receive(rest.prefix(pieces))
            rest = rest.dropFirst(pieces)
        }
        if row.half_close == true { server.end() }
        return server
    }

    @Test(.enabled(if: isPresent, "the folder shared/corpora with http1-cases.jsonl was not found"))
    func theSharedRequestCorpusIsJudgedAsItExpects() throws {
        let rows = try #require(try CorpusCase.load())
        #expect(rows.count > 300)
        var counts: [String: (passed: Int, all: Int)] = [:]
        for row in rows {
            let server = Self.run(row, pieces: .max)
            let fault = Self.fault(row, server)
            for group in [row.level, row.expectation] {
                let before = counts[group] ?? (0, 0)
                counts[group] = (before.passed + (fault == nil ? 1 : 0), before.all + 1)
            }
            if let fault { print("corpus: \(row.level) \(row.expectation) \(row.id): \(fault)") }
            #expect(Self.run(row, pieces: 7) == server, "\(row.id) in pieces of 7")
            if row.bytes.count < 4096 { #expect(Self.run(row, pieces: 1) == server, "\(row.id) byte by byte") }
        }
        let gates = ["accept": 1, "close": 1, "MUST": 1, "LIMIT": 1, "SHOULD": 0.98, "STRICT": 0.95]
        for (group, gate) in gates {
            let (passed, all) = counts[group] ?? (0, 0)
            #expect(Double(passed) >= gate * Double(all), "\(group): \(passed) of \(all)")
        }
    }
}

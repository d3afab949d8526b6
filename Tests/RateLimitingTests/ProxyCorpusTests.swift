import EventLoop
import Foundation
import RateLimiting
import Testing

/// One client-address case of the shared corpus.
struct ProxyCase: Decodable {
    let id: String
    let mode: String
    let peer: String?
    let trusted_proxies: [String]?
    let headers: [[String]]?
    let expected_client_ip: String?
    let also_ok: [String]?

    private struct File: Decodable { let cases: [ProxyCase] }

    /// Looks for the folder upwards from this file; `nil` where it is not there.
    static func load() throws -> [ProxyCase]? {
        var folders: [URL] = []
        if let path = ProcessInfo.processInfo.environment["JANUARY_CORPORA"] { folders.append(URL(fileURLWithPath: path)) }
        var folder = URL(fileURLWithPath: #filePath)
        while folder.path != "/" {
            folder.deleteLastPathComponent()
            folders.append(folder.appendingPathComponent("shared/corpora"))
        }
        for folder in folders {
            guard let data = try? Data(contentsOf: folder.appendingPathComponent("proxy-cases.json")) else { continue }
            return try JSONDecoder().decode(File.self, from: data).cases
        }
        return nil
    }
}

@Suite struct ProxyCorpusTests {
    private static let isPresent = ((try? ProxyCase.load()) ?? nil) != nil

    @Test(.enabled(if: isPresent, "the folder shared/corpora with proxy-cases.json was not found"))
    func theSharedProxyCasesNameTheClientTheyExpect() throws {
        let rows = try #require(try ProxyCase.load())
        var judged = 0
        for row in rows where row.mode != "proxy-protocol" {
            let trusted = try #require(row.trusted_proxies)
            let lines = try #require(row.headers).map { ($0[0], $0[1]) }
            let expected = try #require(row.expected_client_ip)
            let peer = try #require(row.peer.flatMap(RateLimitingTests.peer))
            judged += 1
            guard let fields = fields(lines) else {
                #expect(row.also_ok?.contains("400") == true, "\(row.id): no field")
                continue
            }
            let found = ClientAddress.find(
                peer: peer, fields: fields,
                proxies: proxies(trusted, row.mode == "forwarded" ? .forwarded : .xForwardedFor))
            // The first answer, where several are safe: `also_ok` is for others.
            let answers = [expected] + (row.also_ok ?? []).filter { $0 != "400" }
            #expect(
                answers.contains { IPAddress($0)?.unmapped == found.address }, "\(row.id): \(String(describing: found.address))")
        }
        #expect(judged > 75)
    }
}

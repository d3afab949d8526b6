import Foundation
import StrictJSON
import TestSupport
import Testing

/// Request bodies from the shared corpora (JSONTestSuite and own). Runs where the folder is found.
@Suite struct JSONCorpusTests {
    static let file = Corpora.folder?.appendingPathComponent("json-body-cases.jsonl")

    @Test(.enabled(if: file != nil, "the shared corpora are not here"))
    func everyBodyIsReadAsTheCorpusSays() throws {
        let text = try String(contentsOf: #require(Self.file), encoding: .utf8)
        var judged = 0
        for line in text.split(separator: "\n") {
            let row = try #require(try JSONValue.parse(Array(line.utf8), limits: JSONLimits(bytes: 1_000_000)).object)
            let id = row["id"]?.string ?? "?"
            let body = try #require(row["body_base64"]?.string.flatMap { Data(base64Encoded: $0) })
            let value = try? JSONValue.parse([UInt8](body))
            let note = row["note"]?.string ?? ""
            switch (row["kind"]?.string, row["expected"]?.string) {
            case (_, "accept"):
                #expect(value != nil, "\(id)")
                if let endUser = row["end_user_id"] { #expect(value?.object?["end_user_id"] == endUser, "\(id)") }
            case ("whole", "reject") where note.contains("implementation-defined"): continue  // no crash is all
            case ("whole", "reject") where id.contains("duplicated_key"): #expect(value == nil, "\(id)")
            case ("whole", "reject") where note.contains("valid JSON"): #expect(value != nil, "\(id)")
            case ("whole", "reject"), ("member", "reject"): #expect(value == nil, "\(id)")
            default: continue  // about the member's meaning, or a matter of policy
            }
            judged += 1
        }
        #expect(judged > 300)
    }
}

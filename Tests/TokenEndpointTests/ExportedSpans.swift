import Foundation
import TestSupport
import Testing

/// What a collector has got, read strictly: every export is held to the proto3 mapping of OTLP before anything is looked for in it.
struct ExportedSpan: Sendable {
    let traceID: String
    let spanID: String
    let parentSpanID: String?
    let traceState: String?
    let name: String
    let kind: Int
    let start: UInt64
    let end: UInt64
    let isError: Bool
    /// Texts as they are, numbers in decimal, `true` and `false`.
    let attributes: [String: String]

    var isServer: Bool { kind == 2 }

    /// All spans of all exports, oldest first.
    static func all(_ collector: CollectorDouble) throws -> [ExportedSpan] { try collector.requests.flatMap { try read($0) } }

    static func read(_ request: CollectorDouble.Request) throws -> [ExportedSpan] {
        let lines = request.head.components(separatedBy: "\r\n")
        #expect(lines.first?.hasPrefix("POST ") == true)
        #expect(lines.contains { $0.lowercased() == "content-type: application/json" })
        let root = try object(JSONSerialization.jsonObject(with: Data(request.body)), ["resourceSpans"])
        var spans: [ExportedSpan] = []
        for resource in try list(root["resourceSpans"]) {
            let resource = try object(resource, ["resource", "scopeSpans"])
            let names = try attributes(try object(resource["resource"] as Any, ["attributes"])["attributes"])
            #expect(names["service.name"] == "january-token-endpoint")
            #expect(names["service.version"]?.isEmpty == false)
            #expect(names["service.instance.id"].flatMap { UUID(uuidString: $0) } != nil)
            for scope in try list(resource["scopeSpans"]) {
                let scope = try object(scope, ["scope", "spans"])
                _ = try object(scope["scope"] as Any, ["name", "version"])
                spans += try list(scope["spans"]).map(read)
            }
        }
        return spans
    }

    private static func read(_ value: Any) throws -> ExportedSpan {
        let span = try object(
            value,
            [
                "traceId", "spanId", "parentSpanId", "flags", "traceState", "name", "kind", "startTimeUnixNano",
                "endTimeUnixNano", "attributes", "status",
            ])
        let (traceID, spanID) = (try hex(span["traceId"], 32), try hex(span["spanId"], 16))
        let (start, end) = (try nanoseconds(span["startTimeUnixNano"]), try nanoseconds(span["endTimeUnixNano"]))
        #expect(start <= end)
        let kind = try #require(span["kind"] as? Int)
        #expect(kind == 2 || kind == 3)
        let flags = try #require(span["flags"] as? Int)
        let hasParent = span["parentSpanId"] != nil
        #expect(flags == (kind == 2 && hasParent ? 0x301 : 0x101))
        let status = try object(span["status"] as Any, ["code"])
        #expect(status["code"] == nil || status["code"] as? Int == 2)
        return ExportedSpan(
            traceID: traceID, spanID: spanID, parentSpanID: hasParent ? try hex(span["parentSpanId"], 16) : nil,
            traceState: span["traceState"] as? String, name: try #require(span["name"] as? String), kind: kind, start: start,
            end: end, isError: status["code"] != nil, attributes: try attributes(span["attributes"]))
    }

    /// An object without members nobody knows.
    private static func object(_ value: Any, _ known: Set<String>) throws -> [String: Any] {
        let object = try #require(value as? [String: Any])
        #expect(Set(object.keys).subtracting(known).isEmpty, "\(object.keys)")
        return object
    }

    private static func list(_ value: Any?) throws -> [Any] { try #require(value as? [Any]) }

    private static func attributes(_ value: Any?) throws -> [String: String] {
        var attributes: [String: String] = [:]
        for one in try list(value) {
            let one = try object(one, ["key", "value"])
            let key = try #require(one["key"] as? String)
            let value = try object(one["value"] as Any, ["stringValue", "intValue", "boolValue"])
            #expect(value.count == 1)
            #expect(attributes[key] == nil, "\(key) twice")
            if let text = value["stringValue"] { attributes[key] = try #require(text as? String) }
            if let number = value["intValue"] {
                // 64 bits are a string.
                let text = try #require(number as? String)
                #expect(Int(text) != nil)
                attributes[key] = text
            }
            if let flag = value["boolValue"] { attributes[key] = String(try #require(flag as? Bool)) }
        }
        return attributes
    }

    private static func hex(_ value: Any?, _ count: Int) throws -> String {
        let text = try #require(value as? String)
        #expect(text.count == count && text.allSatisfy { "0123456789abcdef".contains($0) }, "\(text)")
        #expect(text.contains { $0 != "0" })
        return text
    }

    private static func nanoseconds(_ value: Any?) throws -> UInt64 {
        let text = try #require(value as? String)
        return try #require(UInt64(text))
    }
}

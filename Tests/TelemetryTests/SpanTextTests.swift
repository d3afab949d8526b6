import Foundation
import Primitives
import Testing

@testable import Telemetry

/// The JSON of spans against the proto3 mapping of OTLP.
@Suite struct SpanTextTests {
    private static let context = TraceContext(
        traceHigh: 0x0af7_6519_16cd_43dd, traceLow: 0x0448_eb21_1c80_319c, spanID: 0x00ad_6b71_6920_3331, isSampled: true)
    private static let start = WallInstant(nanosecondsSinceEpoch: 1_795_996_800_123_456_789)

    private func json(_ bytes: [UInt8]) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    }

    @Test func aSpanHasEveryMemberInItsForm() throws {
        var span = SpanText(
            Self.context, parent: 0x0000_0000_0000_00ab, hasRemoteParent: true, state: Array("a=1,b=\"\\".utf8), kind: .server,
            name: "POST /january/client-token", start: Self.start, end: Self.start + .milliseconds(12))
        span.add("http.request.method", "POST")
        span.add("http.response.status_code", 201)
        span.add("negative", -7)
        span.add("january_endpoint.undelivered", true)
        span.add("no", false)
        span.end(isError: false)
        let read = try json(span.bytes)
        #expect(read["traceId"] as? String == "0af7651916cd43dd0448eb211c80319c")
        #expect(read["spanId"] as? String == "00ad6b7169203331")
        #expect(read["parentSpanId"] as? String == "00000000000000ab")
        #expect(read["traceState"] as? String == "a=1,b=\"\\")
        #expect(read["flags"] as? Int == 0x301)
        #expect(read["name"] as? String == "POST /january/client-token")
        #expect(read["kind"] as? Int == 2)
        // 64 bits: strings, as JSON's numbers have 53.
        #expect(read["startTimeUnixNano"] as? String == "1795996800123456789")
        #expect(read["endTimeUnixNano"] as? String == "1795996800135456789")
        #expect((read["status"] as? [String: Any])?.isEmpty == true)
        let attributes = try #require(read["attributes"] as? [[String: Any]])
        #expect(
            attributes.map { $0["key"] as? String } == [
                "http.request.method", "http.response.status_code", "negative", "january_endpoint.undelivered", "no",
            ])
        let values = attributes.compactMap { $0["value"] as? [String: Any] }
        #expect(values[0]["stringValue"] as? String == "POST")
        #expect(values[1]["intValue"] as? String == "201")
        #expect(values[2]["intValue"] as? String == "-7")
        #expect(values[3]["boolValue"] as? Bool == true && values[4]["boolValue"] as? Bool == false)
        #expect(values.allSatisfy { $0.count == 1 })
    }

    @Test func whatIsNotThereIsLeftOut() throws {
        var span = SpanText(
            Self.context, parent: 0, hasRemoteParent: false, kind: .client, name: "GET", start: Self.start, end: Self.start)
        span.end(isError: true)
        let read = try json(span.bytes)
        #expect(read["parentSpanId"] == nil && read["traceState"] == nil)
        #expect(read["flags"] as? Int == 0x101)
        #expect(read["kind"] as? Int == 3)
        #expect((read["attributes"] as? [Any])?.isEmpty == true)
        #expect((read["status"] as? [String: Any])?["code"] as? Int == 2)
    }

    /// A clock that was set back, or to before 1970, makes no span that ends before it began.
    @Test func timesAreInOrderAndNeverNegative() throws {
        for (start, end, expected) in [(5, 3, ("5", "5")), (-5, 3, ("0", "3")), (-5, -3, ("0", "0"))]
            as [(Int64, Int64, (String, String))]
        {
            var span = SpanText(
                Self.context, parent: 0, hasRemoteParent: false, kind: .client, name: "GET",
                start: WallInstant(nanosecondsSinceEpoch: start), end: WallInstant(nanosecondsSinceEpoch: end))
            span.end(isError: false)
            let read = try json(span.bytes)
            #expect(read["startTimeUnixNano"] as? String == expected.0)
            #expect(read["endTimeUnixNano"] as? String == expected.1)
        }
    }

    @Test(arguments: ["", "plain", "\"quoted\" \\ back", "line\nfeed\u{0}\u{1F}", "é\u{2028}😀\u{7F}", "</script>"])
    func everyTextComesThroughAsItIs(text: String) throws {
        var span = SpanText(
            Self.context, parent: 0, hasRemoteParent: false, kind: .server, name: text, start: Self.start, end: Self.start)
        span.add("text", text)
        span.end(isError: false)
        let read = try json(span.bytes)
        #expect(read["name"] as? String == text)
        let attribute = try #require((read["attributes"] as? [[String: Any]])?.first?["value"] as? [String: Any])
        #expect(attribute["stringValue"] as? String == text)
        #expect(!span.bytes.contains { $0 < 0x20 })
    }

    @Test(arguments: [0, 1, 3])
    func anExportHoldsTheSpansOfOneResourceAndOneScope(count: Int) throws {
        let envelope = SpanEnvelope(
            resource: [("service.name", "january-token-endpoint"), ("service.version", "1.2.3 \"x\"")], scope: ("scope", "1.2.3"))
        let spans = (0..<count).map { number in
            var span = SpanText(
                Self.context, parent: 0, hasRemoteParent: false, kind: .server, name: "\(number)", start: Self.start,
                end: Self.start)
            span.end(isError: false)
            return span.bytes
        }
        let read = try json(envelope.content(spans))
        #expect(read.keys.sorted() == ["resourceSpans"])
        let resources = try #require(read["resourceSpans"] as? [[String: Any]])
        #expect(resources.count == 1)
        let attributes = try #require((resources[0]["resource"] as? [String: Any])?["attributes"] as? [[String: Any]])
        #expect(attributes.map { $0["key"] as? String } == ["service.name", "service.version"])
        #expect((attributes[1]["value"] as? [String: Any])?["stringValue"] as? String == "1.2.3 \"x\"")
        let scopes = try #require(resources[0]["scopeSpans"] as? [[String: Any]])
        #expect(scopes.count == 1)
        #expect((scopes[0]["scope"] as? [String: Any])?["name"] as? String == "scope")
        #expect((scopes[0]["scope"] as? [String: Any])?["version"] as? String == "1.2.3")
        let names = try #require(scopes[0]["spans"] as? [[String: Any]]).map { $0["name"] as? String }
        #expect(names == (0..<count).map { "\($0)" })
    }
}

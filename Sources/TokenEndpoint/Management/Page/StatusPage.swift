import Digests
import HTTPMessage
import HTTPServer
import Primitives

/// `/status`: the page that draws what `/status.json` says. One document made of the three files beside this one, which are part of the program;
/// a browser asks for nothing else, and runs nothing but the script whose hash the policy names.
struct StatusPage {
    private static let contentSecurityPolicy = FieldName("content-security-policy")
    /// Fixed fields, for browsers that know more or less than the policy.
    private static let fixed: [(FieldName, StaticString)] = [
        (FieldName("referrer-policy"), "no-referrer"), (FieldName("x-frame-options"), "DENY"),
        (FieldName("cross-origin-opener-policy"), "same-origin"), (FieldName("cross-origin-resource-policy"), "same-origin"),
        (.vary, "Accept-Encoding"),
    ]

    let document: [UInt8]
    let policy: String
    /// `nil`: there was no memory for it.
    private let compressed: [UInt8]?

    init() {
        self.init(
            html: PackageResources.status_html, style: PackageResources.status_css, script: PackageResources.status_js)
    }

    /// - Parameter html: with the places `/*css*/` and `/*js*/` for the two others.
    init(html: [UInt8], style: [UInt8], script: [UInt8]) {
        let style = Self.condensed(style)
        let script = Self.condensed(script)
        document = Self.insert(script, at: "/*js*/", Self.insert(style, at: "/*css*/", html))
        policy = Self.policy(style: style, script: script)
        compressed = Gzip.compress(document)
    }

    func response(to fields: Fields, _ responder: Responder, id: RequestID) -> ServerResponse {
        var response = responder.content(status: 200, type: "text/html; charset=utf-8", document, id: id)
        Responder.append(Self.contentSecurityPolicy, policy, to: &response)
        for (name, value) in Self.fixed { HeadEncoder.field(name, literal: value, to: &response.fields) }
        if let compressed, Gzip.isAccepted(fields) {
            response.content = compressed
            HeadEncoder.field(.contentEncoding, literal: "gzip", to: &response.fields)
        }
        return response
    }

    /// Everything is forbidden but this style, this script and the question for `/status.json`; the tab's icon is a `data:` URL. What a
    /// page of a browser's cannot do by these rules it cannot be talked into by a name it shows, either.
    private static func policy(style: [UInt8], script: [UInt8]) -> String {
        func source(_ bytes: [UInt8]) -> String { "'sha256-\(Base64.encode(SHA2.sha256(of: bytes.span.bytes).bytes))'" }
        return [
            "default-src 'none'", "script-src \(source(script))", "style-src \(source(style))", "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ].joined(separator: "; ")
    }

    /// Without indentation and lines of comment, which are for those who read the sources.
    private static func condensed(_ text: [UInt8]) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(text.count)
        for line in text.split(separator: ASCII.lineFeed) {
            let line = line.drop { $0 == ASCII.space }
            guard !line.isEmpty, !line.starts(with: "//".utf8), !line.starts(with: "/*".utf8) else { continue }
            output += line
            output.append(ASCII.lineFeed)
        }
        return output
    }

    private static func insert(_ text: [UInt8], at place: StaticString, _ html: [UInt8]) -> [UInt8] {
        let mark = place.withUTF8Buffer { Array($0) }
        guard let start = html.indices.first(where: { html[$0...].starts(with: mark) }) else { return html }
        return html[..<start] + text + html[(start + mark.count)...]
    }
}

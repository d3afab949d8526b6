@testable import HTTPMessage
import Primitives

// A request-target and an authority: what is accepted is made of its parts byte for byte, and the URL type, which reads the same
// grammar for our own requests, agrees.

private func head(_ method: String, _ target: [UInt8], host: [UInt8] = Array("x".utf8)) -> RequestHead? {
    let bytes = Array("\(method) ".utf8) + target + Array(" HTTP/1.1\r\nHost: ".utf8) + host + Array("\r\n\r\n".utf8)
    var parser = RequestHeadParser(limits: .standard)
    return (try? parser.parse(bytes.span.bytes))?.head
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0, count < 8000 else { return 0 }
    let bytes = input(start, count)
    // With a line end in it, it is more than a target: then only the end of the line matters, and request_head looks at that.
    let isOneLine = !bytes.contains { $0 == 13 || $0 == 10 }
    for method in ["GET", "OPTIONS", "CONNECT"] {
        guard let head = head(method, bytes), isOneLine else { continue }
        let target = head.target
        require(bytes.allSatisfy { $0 > 0x20 && $0 < 0x7F }, "a byte that is no part of a URI")
        var joined: [UInt8] = []
        switch target.form {
        case .asterisk: joined = [0x2A]
        case .authority: joined = Array(target.authority ?? [])
        case .origin: joined = Array(target.pathBytes)
        case .absolute:
            let scheme = text(bytes.prefix(5)).lowercased() == "https" ? 8 : 7
            joined = Array(bytes[..<scheme]) + (target.authority ?? []) + target.pathBytes
        }
        if let query = target.queryBytes { joined += [0x3F] + query }
        require(joined == bytes, "parts: \(text(joined))")
        require((target.form == .authority) == (method == "CONNECT"), "authority-form is for CONNECT")
        require(target.form != .asterisk || method == "OPTIONS", "asterisk-form is for OPTIONS")
        require(target.pathBytes.isEmpty || target.pathBytes.first == 0x2F, "a path begins with a slash")
        require(
            target.pathEquals(Array(target.path.utf8)) == (target.form == .origin || target.form == .absolute), "a path is itself"
        )
        if target.form == .absolute {
            // A URL of ours may not have port 0, an encoded host, or `*` in it; where it is one, it says the same.
            if let url = try? HTTPURL.parse(text(bytes)), url.userInfo == nil {
                let path = text(target.pathBytes) + (target.queryBytes.map { "?" + text($0) } ?? "")
                require(url.target == (target.pathBytes.isEmpty ? "/" + path : path), "target of the URL: \(url.target)")
            }
        }
    }
    // The same bytes as Host.
    if isOneLine, let head = head("GET", Array("/".utf8), host: bytes), let host = head.fields.first(.host) {
        require(host.elementsEqual(bytes.drop { $0 == 0x20 || $0 == 9 }.trimmedBlanks), "Host is what was sent")
        require(!host.contains(0x40) && !host.contains(0x2F) && !host.contains(0x2C), "no user, path or list in Host")
    }
    // And as a URL and an origin.
    guard let url = try? HTTPURL.parse(text(bytes)) else { return 0 }
    require((1...65535).contains(url.origin.port), "port")
    let written = "\(url.origin)\(url.target)"
    require(
        (try? HTTPURL.parse(written)).map { $0.origin == url.origin && $0.target == url.target } ?? false,
        "written again: \(written)")
    if let origin = Origin.parse(text(bytes)) {
        require(Origin.parse(origin.description) == origin, "origin: \(origin)")
    }
    if url.userInfo != nil {
        require(
            url.redacted.hasPrefix("\(url.origin.scheme.rawValue)://<redacted>@\(url.origin.authority)/"), "user in an output")
    }
    require(!url.redacted.contains("?") || url.redacted.hasSuffix("?<redacted>"), "query in an output")
    return 0
}

extension ArraySlice<UInt8> {
    fileprivate var trimmedBlanks: ArraySlice<UInt8> {
        var end = endIndex
        while end > startIndex, self[end - 1] == 0x20 || self[end - 1] == 9 { end -= 1 }
        return self[startIndex..<end]
    }
}

// needs: Sources/RateLimiting/ClientAddress.swift
import EventLoop
import HTTPMessage
import Primitives

@testable import RateLimiting

// Whom a request counts for behind proxies: a client that writes whatever it likes in front of what a trusted proxy has added does not
// choose its address; entries that are no address do not move the walk.

private let proxies = ["10.0.0.0/8", "fd00::/8"].compactMap(AddressRange.init)
private let proxy = SocketAddress("10.0.0.1:4711") ?? .unix(path: "x")
private let stranger = SocketAddress("192.0.2.9:4711") ?? .unix(path: "x")

private func fields(_ name: FieldName, _ values: [[UInt8]]) -> Fields? {
    var block = FieldBlock()
    for value in values { if (try? block.append(name, bytes: value.span.bytes)) == nil { return nil } }
    return Fields(block)
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    // As a parser gives them: no control characters, no white space around.
    let bytes = input(start, count)
    let lines = bytes.split(separator: 10).map(Array.init)
    for field in ProxyField.allCases {
        let trusted = TrustedProxies(ranges: proxies, field: field)
        guard let sent = fields(field.fieldName, lines) else { continue }
        let found = ClientAddress.find(peer: proxy, fields: sent, proxies: trusted)
        require(found.address != nil, "a peer with an address has one")
        require(found.address?.unmapped == found.address, "mapped addresses are IPv4")
        require(found == ClientAddress.find(peer: proxy, fields: sent, proxies: trusted), "asked twice")
        // A stranger's field is not read.
        let other = ClientAddress.find(peer: stranger, fields: sent, proxies: trusted)
        require(other.address == stranger.ip, "a stranger chose its address")
        // Nor is the field that was not chosen.
        let unchosen: ProxyField = field == .forwarded ? .xForwardedFor : .forwarded
        let plain = ClientAddress.find(peer: proxy, fields: sent, proxies: TrustedProxies(ranges: proxies, field: unchosen))
        require(plain.address == proxy.ip, "the other field was read")
        // The proxy adds whom it saw: whatever the client wrote in front of it, that is whom the request counts for.
        let real = field == .forwarded ? "for=198.51.100.7" : "198.51.100.7"
        guard let passedOn = fields(field.fieldName, lines + [Array(real.utf8)]) else { continue }
        let behind = ClientAddress.find(peer: proxy, fields: passedOn, proxies: trusted)
        require(behind.address == IPAddress("198.51.100.7") && !behind.isExempt, "the client chose its address: \(behind)")
        // In the same line, as some proxies do it.
        guard let last = lines.last, let joined = fields(field.fieldName, lines.dropLast() + [last + Array(", \(real)".utf8)])
        else { continue }
        let inLine = ClientAddress.find(peer: proxy, fields: joined, proxies: trusted)
        // A quote that the client has opened makes the line unreadable: then the peer counts, and never what the client wrote.
        require(
            inLine.address == IPAddress("198.51.100.7") || (field == .forwarded && inLine.address == proxy.ip),
            "in one line: \(inLine)")
        _ = OuterAuthority.find(peer: proxy, fields: joined, proxies: trusted)
    }
    return 0
}

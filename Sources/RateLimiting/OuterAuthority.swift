import EventLoop
import HTTPMessage
import Primitives

/// What the app's request was addressed to before trusted proxies passed it on: the host (with its port, if any) and the scheme they say.
package struct OuterAuthority: Sendable, Equatable {
    /// As it was sent; compared without case by whoever uses it.
    package var host: ArraySlice<UInt8>?
    /// In lower case.
    package var scheme: ArraySlice<UInt8>?

    /// From the element of `Forwarded` at which the client's address was found, or from `X-Forwarded-Host` and `X-Forwarded-Proto`
    /// beside `X-Forwarded-For`.
    ///
    /// - Returns: `nil` when the peer is not trusted. A value that is missing, or cannot be read in one way, is `nil`.
    package static func find(peer: SocketAddress, fields: Fields, proxies: TrustedProxies) -> OuterAuthority? {
        guard proxies.contains(peer) else { return nil }
        var walk = ProxyWalk(proxies)
        walk.run(fields.values(proxies.field.fieldName))
        switch proxies.field {
        case .forwarded:
            return OuterAuthority(host: walk.element?.host, scheme: walk.element?.scheme?.lowercased())
        case .xForwardedFor:
            return OuterAuthority(
                host: member(fields.values(.xForwardedHost), hops: walk.hops),
                scheme: member(fields.values(.xForwardedProto), hops: walk.hops)?.lowercased())
        }
    }

    /// A list with a member for every hop is read at the client's hop. Any other was written by fewer proxies than the addresses were:
    /// then the last member, the nearest proxy's.
    private static func member(_ lines: [ArraySlice<UInt8>], hops: Int) -> ArraySlice<UInt8>? {
        var members: [ArraySlice<UInt8>] = []
        for line in lines {
            for part in line.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: true) {
                let member = part.trimmingSpaces()
                if !member.isEmpty { members.append(member) }
            }
        }
        return members.count >= hops && hops > 0 ? members[members.count - hops] : members.last
    }
}

extension ArraySlice<UInt8> {
    fileprivate func lowercased() -> ArraySlice<UInt8> { map(ASCII.lowercased)[...] }
}

extension FieldName {
    static let xForwardedHost = FieldName("x-forwarded-host")
    static let xForwardedProto = FieldName("x-forwarded-proto")
}

/// What the measured sources name of other targets and do not use here.
package enum IPAddress {
    case v4(UInt32)
    case v6(UInt64, UInt64, zone: UInt32)
    package var unmapped: IPAddress { self }
}

final class HMACKey: Sendable {
    enum Algorithm { case sha256 }
    init(_ algorithm: Algorithm, key: Secret) {}
    func authenticate(_ parts: [UInt8]...) -> [UInt8] { [] }
    func authenticate(_ bytes: RawSpan) -> [UInt8] { [] }
}

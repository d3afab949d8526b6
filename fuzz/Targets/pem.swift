import COpenSSL
import JOSE
import Primitives

@testable import TLS

// PEM files: a public key or nothing, certificates for the trust store or nothing; OpenSSL's queue of errors is empty behind it, so that
// the next TLS call of the thread does not read somebody else's failure.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    ERR_clear_error()
    let key = try? VerificationKey.pem(bytes, keyID: "k")
    require(ERR_peek_error() == 0, "errors left behind a key")
    if let key {
        require(key.kind != .hmac && !key.algorithms.isEmpty && key.keyID == "k", "a public key")
        if case .rsa(let bits) = key.kind { require((2048...8192).contains(bits), "RSA of \(bits) bits") }
        require(!text(bytes).contains("PRIVATE KEY-----"), "a private key was taken")
        let again = try? VerificationKey.pem(Array("comment\n".utf8) + bytes + Array("\n".utf8), keyID: "k")
        require(again?.kind == key.kind, "with text around it")
    }
    let trust = try? TLSClientContext(trust: .authorities(pem: bytes))
    require(ERR_peek_error() == 0, "errors left behind certificates")
    if trust != nil { require(text(bytes).contains("-----BEGIN "), "certificates out of nothing") }
    return 0
}

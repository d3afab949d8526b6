import COpenSSL
import Primitives

/// SHA-2 and HMAC (FIPS 180-4, RFC 2104) by OpenSSL. Algorithms are fetched once per process: fetching costs more than hashing.
package enum SHA2: Sendable, CaseIterable {
    case sha256, sha384, sha512

    package var byteCount: Int {
        switch self {
        case .sha256: 32
        case .sha384: 48
        case .sha512: 64
        }
    }

    /// The digest of `bytes` (`byteCount` octets). Any thread.
    package func hash(_ bytes: RawSpan) -> [UInt8] {
        if self == .sha256 { return SHA256.hash(bytes).bytes }
        let context = DigestContext()
        return bytes.withUnsafeBytes { input in
            [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { output, count in
                var written: UInt32 = 0
                // Fails only when memory or the default provider is missing; an empty digest equals none of ours.
                let done =
                    EVP_DigestInit_ex(context.pointer, Algorithms.digest(self), nil) == 1
                    && EVP_DigestUpdate(context.pointer, input.baseAddress, input.count) == 1
                    && EVP_DigestFinal_ex(context.pointer, output.baseAddress, &written) == 1
                count = done ? Int(written) : 0
            }
        }
    }

    package func hash(_ bytes: [UInt8]) -> [UInt8] { hash(bytes.span.bytes) }
    package func hash(_ text: String) -> [UInt8] { hash(Array(text.utf8)) }

    var name: String {
        switch self {
        case .sha256: "SHA256"
        case .sha384: "SHA384"
        case .sha512: "SHA512"
        }
    }
}

/// Owns one `EVP_MD_CTX` for the length of a call.
private struct DigestContext: ~Copyable {
    let pointer: OpaquePointer? = EVP_MD_CTX_new()
    deinit { EVP_MD_CTX_free(pointer) }
}

/// Fetched once, never freed: they live as long as the process.
private struct Algorithms: @unchecked Sendable {
    // Sendable: fetched EVP_MD and EVP_MAC objects are immutable and reference counted with atomics (OpenSSL's threads(7)).
    let sha256 = EVP_MD_fetch(nil, "SHA256", nil)
    let sha384 = EVP_MD_fetch(nil, "SHA384", nil)
    let sha512 = EVP_MD_fetch(nil, "SHA512", nil)
    let hmac = EVP_MAC_fetch(nil, "HMAC", nil)

    static let shared = Algorithms()

    static func digest(_ algorithm: SHA2) -> OpaquePointer? {
        switch algorithm {
        case .sha256: shared.sha256
        case .sha384: shared.sha384
        case .sha512: shared.sha512
        }
    }
}

/// HMAC under one key, prepared once: each call copies the prepared state, so one value serves all threads without a lock.
package final class HMACKey: @unchecked Sendable {
    // Sendable: `state` is written in `init` only; EVP_MAC_CTX_dup reads it and every call works on its own duplicate.
    private enum State {
        case sha256(HMACSHA256)
        /// `EVP_MAC_CTX`
        case other(OpaquePointer?)
    }

    private let state: State
    package let algorithm: SHA2
    /// `OSSL_MAC_PARAM_DIGEST`
    private static let digestParameter: StaticString = "digest"

    /// A key of any length; callers refuse keys shorter than the hash where a rule says so (RFC 7518 section 3.2).
    package init(_ algorithm: SHA2, key: Secret) {
        self.algorithm = algorithm
        state = algorithm == .sha256 ? .sha256(HMACSHA256(key: key)) : .other(Self.prepared(algorithm, key))
    }

    private static func prepared(_ algorithm: SHA2, _ key: Secret) -> OpaquePointer? {
        let prepared = EVP_MAC_CTX_new(Algorithms.shared.hmac)
        var name = Array(algorithm.name.utf8CString)
        let ready = name.withUnsafeMutableBufferPointer { name in
            key.withUnsafeBytes { key in
                let parameters = [
                    OSSL_PARAM_construct_utf8_string(Self.digestParameter.openSSLName, name.baseAddress, 0),
                    OSSL_PARAM_construct_end(),
                ]
                // A nil pointer would mean "keep the old key": an empty key still gets an address.
                let address = key.baseAddress?.assumingMemoryBound(to: UInt8.self)
                var none: UInt8 = 0
                return withUnsafePointer(to: &none) {
                    EVP_MAC_init(prepared, address ?? $0, key.count, parameters) == 1
                }
            }
        }
        precondition(ready, "OpenSSL cannot compute HMAC with \(algorithm.name)")
        return prepared
    }

    deinit {
        if case .other(let prepared) = state { EVP_MAC_CTX_free(prepared) }
    }

    /// The authentication code of the parts, one after the other (`algorithm.byteCount` octets).
    package func authenticate(_ parts: [UInt8]...) -> [UInt8] {
        switch state {
        case .sha256(let key): return key.authenticate(parts.count == 1 ? parts[0] : Array(parts.joined())).bytes
        case .other(let prepared):
            return compute(prepared) { context in
                for part in parts where EVP_MAC_update(context, part, part.count) != 1 { return false }
                return true
            }
        }
    }

    package func authenticate(_ bytes: RawSpan) -> [UInt8] {
        switch state {
        case .sha256(let key): return key.authenticate(bytes).bytes
        case .other(let prepared):
            return bytes.withUnsafeBytes { input in
                compute(prepared) {
                    EVP_MAC_update($0, input.baseAddress?.assumingMemoryBound(to: UInt8.self), input.count) == 1
                }
            }
        }
    }

    private func compute(_ prepared: OpaquePointer?, _ feed: (OpaquePointer) -> Bool) -> [UInt8] {
        guard let context = EVP_MAC_CTX_dup(prepared) else { return [] }
        defer { EVP_MAC_CTX_free(context) }
        guard feed(context) else { return [] }
        return [UInt8](unsafeUninitializedCapacity: algorithm.byteCount) { output, count in
            var written = 0
            count = EVP_MAC_final(context, output.baseAddress, &written, output.count) == 1 ? written : 0
        }
    }
}

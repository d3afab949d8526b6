import JOSE
import Primitives
import StrictJSON

// A key set from a URL or a file: every entry is a key or has a reason, secrets never come from a URL, what is chosen for a token fits.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    let bytes = input(start, count)
    guard let file = try? JWKSet.parse(bytes, source: .file) else {
        require((try? JWKSet.parse(bytes, source: .url)) == nil, "a set from a URL that a file may not hold")
        return 0
    }
    guard let url = try? JWKSet.parse(bytes, source: .url) else {
        require(false, "a set from a file that a URL may not hold")
        return 0
    }
    let entries =
        (try? JSONValue.parse(bytes, limits: JSONLimits(bytes: JWKSet.maxBytes, depth: 16)))?.object?["keys"]?.array ?? []
    for set in [file, url] {
        require(set.keys.count + set.skipped.count == entries.count, "every entry once")
        require(set.keys.count <= JWKSet.maxKeys, "too many keys")
        for skipped in set.skipped {
            require(!"\(skipped.reason)".isEmpty && entries.indices.contains(skipped.index), "a reason")
        }
        for key in set.keys {
            require(!key.algorithms.isEmpty, "a key for nothing")
            if case .rsa(let bits) = key.kind { require((2048...8192).contains(bits), "RSA of \(bits) bits") }
            if let only = key.algorithm { require(key.algorithms == [only], "alg") }
        }
        let names = Set(set.keys.compactMap(\.keyID) + set.skipped.compactMap(\.keyID)).prefix(4)
        for keyID in [nil, "none such"] + names.map(Optional.some) {
            for algorithm in JWSAlgorithm.allCases {
                guard case .keys(let keys) = set.candidates(keyID: keyID, algorithm: algorithm) else { continue }
                require((1...JWKSet.maxCandidates).contains(keys.count), "number of candidates")
                require(keys.allSatisfy { $0.fits(algorithm) }, "a candidate that does not fit")
                if let keyID, names.contains(keyID) {
                    require(keys.allSatisfy { $0.keyID.map { $0.hasSameBytes(as: keyID) } ?? true }, "a key of another name")
                }
            }
        }
    }
    require(!url.keys.contains { $0.kind == .hmac }, "a secret that everybody can read")
    let publicKeys = file.keys.filter { $0.kind != .hmac }
    require(publicKeys.count == url.keys.count, "public keys do not depend on where they come from")
    return 0
}

import JOSE
import Primitives
import StrictJSON

// A token: what is taken apart is put together again to the same bytes, so it has one text; no signature is good that the key did not
// make; claims survive the way through JSON; and every check ends in a verdict. A leading 0x00 hands the rest to the claims alone, a
// leading 0x01 is header, 0x2E, claims, signed here with the key, so that the checks behind the signature are reached.

private let secret = SigningKey.hmac(.hs256, secret: Secret("0123456789abcdef0123456789abcdef"))
nonisolated(unsafe) private let verifier = SignatureVerifier()
private let key = try? VerificationKey.hmac(Secret("0123456789abcdef0123456789abcdef"), algorithms: [.hs256])
private let strangers =
    (try? VerificationKey.hmac(Secret("another secret, of 32 bytes, too"), algorithms: [.hs256])).map { [$0] } ?? []
private let strict = JWTRules(
    issuers: ["https://login.example"], audience: ["api"], algorithms: [.hs256, .es256], maxLifetime: .seconds(3600))
private let lenient = JWTRules(
    issuers: nil, audience: nil, algorithms: Set(JWSAlgorithm.allCases), types: ["none", "x"], requiresSubject: false)

private func check(_ claims: JWTClaims) {
    for second in [0, 1_796_000_000, 4_000_000_000] as [Int64] {
        let now = WallInstant(secondsSinceEpoch: second)
        let isStrict = (try? strict.check(claims, now: now)) != nil
        if isStrict {
            require(claims.issuer == "https://login.example" && claims.audience.contains("api"), "issuer and audience")
            require(claims.expiration.map { Double(second) < $0 + 60 } ?? false, "accepted and expired")
            require(claims.subject.map { !$0.isEmpty } ?? false, "a subject")
        }
        let trace = JWTTrace(showsClaims: true)
        let isTraced = (try? strict.check(claims, now: now, trace: trace)) != nil
        require(isStrict == isTraced, "explaining changes the verdict")
        if isStrict { require((try? lenient.check(claims, now: now)) != nil, "fewer rules refuse more") }
    }
    let encoded = claims.object.encoded()
    // Escapes can make a text longer; a token is bounded as it was sent.
    if let again = try? JWTClaims.parse(encoded) {
        require(again.object == claims.object && again.expiration == claims.expiration, "claims written again")
    } else {
        require(encoded.count > CompactJWS.maxBytes, "claims written again are none")
    }
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0, let key else { return 0 }
    var bytes = input(start, count)
    if bytes[0] == 0 {
        if let claims = try? JWTClaims.parse(Array(bytes.dropFirst())) { check(claims) }
        return 0
    }
    let isSigned = bytes[0] == 1
    if isSigned {
        let parts = bytes.dropFirst().split(separator: 0x2E, maxSplits: 1, omittingEmptySubsequences: false).map(Array.init)
        bytes = Array(secret.sign(rawHeader: parts[0], rawPayload: parts.count > 1 ? parts[1] : []).utf8)
    }
    guard let jws = try? CompactJWS.parse(bytes) else { return 0 }
    let written = text(jws.signingInput) + "." + Base64URL.encode(jws.signature)
    require(Array(written.utf8) == bytes, "one token, one text")
    require(
        jws.signingInput.elementsEqual(bytes.prefix { _ in true }.prefix(jws.signingInput.count)),
        "what is signed is what was sent")
    let parts = text(bytes).split(separator: ".", omittingEmptySubsequences: false)
    require(parts.count == 3 && Base64URL.decode(String(parts[1])) == jws.payload, "payload")
    require(jws.header.object["alg"]?.string == jws.header.algorithmName, "alg")
    let isGood = verifier.verify(jws, algorithm: .hs256, key: key)
    require(isGood == isSigned, "a signature that nobody made")
    require(verifier.verify(jws, algorithm: .hs256, keys: strangers) == nil, "a stranger's key")
    for algorithm in JWSAlgorithm.allCases where algorithm != .hs256 {
        require(!verifier.verify(jws, algorithm: algorithm, key: key), "a key for another algorithm")
    }
    if isGood {
        // Any other byte of what was signed is another token.
        var other = jws.signingInput
        other[other.count / 2] ^= 1
        require(!verifier.verify(jws.signature, over: other, algorithm: .hs256, key: key), "another input")
    }
    if let algorithm = try? strict.check(jws.header) {
        require([.hs256, .es256].contains(algorithm) && !jws.header.hasCritical, "what the header allows")
    }
    _ = try? lenient.check(jws.header)
    if let claims = try? JWTClaims.parse(jws.payload) { check(claims) }
    return 0
}

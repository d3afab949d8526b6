import Primitives

final class KeyMaterial: Sendable {
    private let algorithms: Set<JWSAlgorithm>
    init(secret: Secret, algorithms: Set<JWSAlgorithm>) throws(KeyError) { self.algorithms = algorithms }
    func isPrepared(for algorithm: JWSAlgorithm) -> Bool { algorithms.contains(algorithm) }
}

enum PEMKey {
    static func parse(_ bytes: [UInt8], keyID: String?) throws(KeyError) -> VerificationKey { throw .notPEM }
}

import EndUsers
import Primitives
import Sessions
import StrictJSON

/// A subject as the app's backend knows it → the end-user ID that a session of the same person gets.
struct SubjectMapping: Sendable {
    private struct Place: Sendable, Equatable {
        let namespace: String?
        let prefix: String?
    }

    private let mapping: EndUserMapping
    private let places: [Place]
    /// Issuers of the verifiers, which may be named instead of their namespaces.
    private let placesByIssuer: [(issuer: String, place: Place)]

    init(_ config: RootConfig) {
        mapping = config.endUsers
        places = config.sessions.verifiers.map { Place(namespace: $0.namespace, prefix: $0.endUserPrefix) }
        placesByIssuer = config.sessions.verifiers.flatMap { verifier in
            (verifier.rules.issuers ?? []).map { ($0, Place(namespace: verifier.namespace, prefix: verifier.endUserPrefix)) }
        }
    }

    func endUserID(_ subject: String, issuer: String?) throws(BadMember) -> String {
        let place = try self.place(issuer)
        do throws(EndUserError) {
            return try mapping.map(value: subject, namespace: place.namespace, prefix: place.prefix).text
        } catch {
            throw BadMember("subject", "This subject maps to no end-user ID that a session could have.")
        }
    }

    private func place(_ issuer: String?) throws(BadMember) -> Place {
        var found = places
        if let issuer {
            found = places.filter { $0.namespace?.hasSameBytes(as: issuer) ?? false }
            if found.isEmpty { found = placesByIssuer.filter { $0.issuer.hasSameBytes(as: issuer) }.map(\.place) }
        }
        guard let first = found.first else { throw BadMember("issuer", "This is no namespace of a session verifier.") }
        guard found.allSatisfy({ $0 == first }) else {
            throw BadMember("issuer", "People come from several namespaces. Say which one.")
        }
        return first
    }
}

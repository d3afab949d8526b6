import HTTPMessage
import Primitives

/// One request to January and what became of it: for metrics and logs.
package struct JanuaryAttempt: Sendable, Equatable {
    package let slot: KeySlot
    /// Of the key it was sent with, which may have been replaced since.
    package let keyFingerprint: String
    /// `nil` when no answer came.
    package let status: Int?
    /// `nil` for a 201 and when no answer came.
    package let code: JanuaryErrorCode?
    package let error: UpstreamError?
    /// From the call to the end of the answer, waiting for a connection included.
    package let duration: Duration
}

/// A token that may be delivered.
package final class MintDelivery: Sendable {
    package let answer: MintAnswer
    /// January's, as it was.
    package let contentType: ArraySlice<UInt8>

    init(answer: MintAnswer, contentType: ArraySlice<UInt8>) {
        self.answer = answer
        self.contentType = contentType
    }
}

/// What one mint came to.
package final class MintOutcome: Sendable {
    package let result: Result<MintDelivery, JanuaryFailure>
    /// January's request ID of the last answer whose head came, if it gave a usable one.
    package let requestID: String?
    /// `nil` when the breaker answered, or the budget did.
    package let first: JanuaryAttempt?
    /// With the other key, after a 401.
    package let second: JanuaryAttempt?
    /// The slot that has just become current.
    package let switchedTo: KeySlot?
    /// Why there is no TLS connection, finer than `.unreachable(.tls)`. Bounded.
    package let tlsFailure: StaticString?

    init(
        result: Result<MintDelivery, JanuaryFailure>, requestID: String?, first: JanuaryAttempt?, second: JanuaryAttempt?,
        switchedTo: KeySlot?, tlsFailure: StaticString? = nil
    ) {
        self.result = result
        self.requestID = requestID
        self.first = first
        self.second = second
        self.switchedTo = switchedTo
        self.tlsFailure = tlsFailure
    }

    /// A request went out and nobody knows what January made of it: no answer came, or a gateway on the way gave one. There may be a
    /// token some time from now that nobody holds.
    package var mayStillBeCommitted: Bool {
        (first?.mayStillBeCommitted ?? false) || (second?.mayStillBeCommitted ?? false)
    }
}

extension JanuaryAttempt {
    fileprivate var mayStillBeCommitted: Bool {
        if let error { return error.wasSent }
        return status == 502 || status == 504
    }
}

/// January's request ID, as far as it may go into our own fields and logs.
enum JanuaryRequestID {
    private static let alternative = FieldName("request-id")

    /// `X-Request-Id`, else `Request-Id`: one field line of 1 to 128 letters, digits and `-._~:/+=@`; otherwise as if it were not there.
    static func read(_ fields: Fields) -> String? {
        var found = fields.single(.xRequestID)
        if case .none = found { found = fields.single(alternative) }
        guard case .one(let value) = found, (1...128).contains(value.count) else { return nil }
        return value.withUnsafeBufferPointer { value in
            var others: UInt8 = 0
            for byte in value { others |= isAllowed(byte) ? 0 : 1 }
            return others == 0 ? String(decoding: value, as: UTF8.self) : nil
        }
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        if ASCII.isLetter(byte) || ASCII.isDigit(byte) { return true }
        switch byte {
        case UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"), UInt8(ascii: ":"), UInt8(ascii: "/"),
            UInt8(ascii: "+"), UInt8(ascii: "="), UInt8(ascii: "@"):
            return true
        default: return false
        }
    }
}

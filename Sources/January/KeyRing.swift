import HTTPMessage
import Primitives

/// Which of the two configured keys.
package enum KeySlot: String, Sendable, CaseIterable {
    case first, next
}

/// A key with the fields of every request made with it, rendered once.
package final class KeyInUse: Sendable {
    package let slot: KeySlot
    package let key: APIKey
    /// Authorization, Accept, Content-Type, Accept-Encoding, User-Agent.
    package let fields: FieldBlock

    init(_ key: APIKey, slot: KeySlot, userAgent: String) {
        var fields = FieldBlock()
        do throws(FieldError) {
            try fields.append(.authorization, secret: key.secret, prefix: "Bearer ")
            try fields.append(.userAgent, userAgent)
        } catch {
            preconditionFailure("a checked key and our own name are field values")
        }
        fields.append(.accept, literal: "application/json")
        fields.append(.contentType, literal: "application/json")
        fields.append(.acceptEncoding, literal: "identity")
        self.slot = slot
        self.key = key
        self.fields = fields
    }
}

/// The one or two keys of this process and which of them is current: the one that worked last, the first one at the start. Not stored.
///
/// Any thread.
package final class KeyRing: Sendable {
    package struct Selection: Sendable {
        package let current: KeyInUse
        /// Tried once, after a 401 to `current`.
        package let other: KeyInUse?

        /// The one that has not been tried, whichever is current by now and whatever its slot.
        func key(notTriedBy attempt: JanuaryAttempt) -> KeyInUse? {
            current.key.fingerprint == attempt.keyFingerprint ? other : current
        }
    }

    private let selection: Lock<Selection>
    private let userAgent: String

    /// `next`: `nil`, or the same key again, means that there is nothing to fail over to.
    package init(first: APIKey, next: APIKey? = nil, userAgent: String) {
        self.userAgent = userAgent
        selection = Lock(Self.selection(first, next, current: nil, userAgent))
    }

    package var keys: Selection { selection.withLock { $0 } }

    /// A 201 came for this key. True when that made it current.
    package func worked(_ key: KeyInUse) -> Bool {
        selection.withLock { selection in
            guard let other = selection.other, other === key else { return false }
            selection = Selection(current: other, other: selection.current)
            return true
        }
    }

    /// The key files were read again. The next key stays current only where the first one is still the one that January has refused: a new first key has
    /// not been tried yet, and comes first.
    ///
    /// Returns false when nothing changed.
    package func replace(first: APIKey, next: APIKey?) -> Bool {
        selection.withLock { selection in
            let before = selection
            let hasFailedOver = before.current.slot == .next && before.other?.key == first
            let replacement = Self.selection(first, next, current: hasFailedOver ? before.current.key : nil, userAgent)
            let isSame =
                replacement.current.key == before.current.key && replacement.current.slot == before.current.slot
                && replacement.other?.key == before.other?.key
            if !isSame { selection = replacement }
            return !isSame
        }
    }

    private static func selection(_ first: APIKey, _ next: APIKey?, current: APIKey?, _ userAgent: String) -> Selection {
        let firstInUse = KeyInUse(first, slot: .first, userAgent: userAgent)
        guard let next, next != first else { return Selection(current: firstInUse, other: nil) }
        let nextInUse = KeyInUse(next, slot: .next, userAgent: userAgent)
        return next == current
            ? Selection(current: nextInUse, other: firstInUse) : Selection(current: firstInUse, other: nextInUse)
    }
}

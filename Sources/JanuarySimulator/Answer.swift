import Primitives
import StrictJSON

/// One answer of the simulator before it is written: everything about it but its framing.
package struct Answer: Sendable, Equatable {
    package struct Member: Sendable, Equatable {
        package let name: String
        /// JSON text of the value.
        package var json: [UInt8]

        init(_ name: String, _ value: JSONValue) {
            self.name = name
            json = value.encoded()
        }

        init(_ name: String, json: [UInt8]) {
            self.name = name
            self.json = json
        }
    }

    package enum Content: Sendable, Equatable {
        case object([Member])
        case bytes([UInt8])
    }

    package var status: Int
    /// January's error code; `nil` for anything that is no error of January's.
    package var code: String?
    package var contentType = "application/json; charset=utf-8"
    package var content: Content
    package var retryAfter: String?
    package var allow: [String] = []
    package var location: String?
    /// Further field lines, without their line ends.
    package var fieldLines: [String] = []
    /// The token this answer delivers, if it delivers one.
    package var mintedToken: String?

    init(_ status: Int, _ members: [Member]) {
        self.status = status
        content = .object(members)
    }

    init(_ status: Int, _ object: JSONObject) {
        self.status = status
        content = .bytes(object.encoded())
    }

    /// An error of January's: `{message, code}`.
    static func failure(_ status: Int, _ code: String, _ message: String, retryAfter: String? = nil) -> Answer {
        var answer = Answer(status, [Member("message", .string(message)), Member("code", .string(code))])
        answer.code = code
        answer.retryAfter = retryAfter
        return answer
    }

    var isSuccess: Bool { (200...299).contains(status) }

    package var body: [UInt8] {
        switch content {
        case .bytes(let bytes): return bytes
        case .object(let members):
            var bytes: [UInt8] = []
            bytes.reserveCapacity(320)
            bytes.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                JSONValue.append(member.name, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                bytes.append(contentsOf: member.json)
            }
            bytes.append(UInt8(ascii: "}"))
            return bytes
        }
    }

    /// Puts the parts of a fault in the place of the right ones.
    mutating func apply(_ fault: Fault.Content) {
        if let status = fault.status { self.status = status }
        if let type = fault.contentType { contentType = type }
        if case .object(var members) = content {
            func replace(_ name: String, _ json: [UInt8]?) {
                guard let json, let index = members.firstIndex(where: { $0.name == name }) else { return }
                members[index].json = json
            }
            replace("end_user_id", fault.endUserID.map { JSONValue.string($0).encoded() })
            replace("scopes", fault.scopes.map { JSONValue.array($0.map(JSONValue.string)).encoded() })
            replace("token", fault.token.map { JSONValue.string($0).encoded() })
            replace("expires_in", fault.expiresInText.map { Array($0.utf8) })
            members += members.filter { fault.duplicateMembers.contains($0.name) }
            members.removeAll { fault.missingMembers.contains($0.name) }
            content = .object(members)
            if let extra = fault.extraMembers {
                var bytes = body
                bytes.removeLast()
                if !members.isEmpty { bytes.append(UInt8(ascii: ",")) }
                bytes.append(contentsOf: extra.utf8)
                bytes.append(UInt8(ascii: "}"))
                content = .bytes(bytes)
            }
        }
        if let body = fault.body { content = .bytes(body) }
    }
}

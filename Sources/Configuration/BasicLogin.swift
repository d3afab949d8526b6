import Primitives

/// User name and password of the Basic scheme (RFC 7617), for what is fetched from others over HTTP.
package struct BasicLogin: Sendable, Equatable {
    package var username: String
    package var password: Secret

    package init(username: String, password: Secret) {
        self.username = username
        self.password = password
    }

    /// What stands behind `Basic ` in `Authorization`.
    package var credentials: Secret {
        var pair = Array((username + ":").utf8)
        password.withUnsafeBytes { pair.append(contentsOf: $0) }
        return Secret(Base64.encode(pair))
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.username == right.username && left.password.equals(right.password)
    }
}

extension ConfigSection {
    /// `username` and `password_file`: both or none.
    package func basicLogin() -> BasicLogin? {
        let username = string("username")
        let password = secretFile("password_file")
        switch (username, password) {
        case (nil, nil): return nil
        case (let username?, let password?):
            if username.isEmpty || username.utf8.contains(UInt8(ascii: ":")) {
                problem("username", "must not be empty and must not hold a colon")
            }
            return BasicLogin(username: username, password: password.secret)
        case (_?, nil):
            if !has("password_file") { problem("username", "needs password_file beside it") }
            return nil
        case (nil, _?):
            problem("password_file", "needs username beside it")
            return nil
        }
    }
}

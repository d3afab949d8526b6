import Primitives

/// A secret and where it came from.
package struct SecretFile: Sendable, Equatable {
    /// For reading it again when it changes; `nil` when it came from the environment.
    package let path: String?
    package let secret: Secret

    /// Largest secret, in bytes.
    package static let maxBytes = 65_536

    package init(path: String?, secret: Secret) {
        self.path = path
        self.secret = secret
    }

    package static func == (left: SecretFile, right: SecretFile) -> Bool {
        left.path == right.path && left.secret.equals(right.secret)
    }

    package enum Failure: Error, Equatable {
        case empty, tooLarge
        case unreadable(FileBytes.Failure)

        package var message: String {
            switch self {
            case .empty: "is empty"
            case .tooLarge: "has more than \(SecretFile.maxBytes) bytes"
            case .unreadable(let failure): failure.message
            }
        }
    }

    /// Reads the file again, for a reload of secrets alone.
    package static func read(path: String) throws(Failure) -> (file: SecretFile, isReadableByOthers: Bool) {
        let content: FileBytes.Content
        do throws(FileBytes.Failure) {
            // One byte more for the newline that is trimmed, one for the carriage return before it.
            content = try FileBytes.read(path, maxBytes: maxBytes + 2)
        } catch {
            if case .tooLarge = error { throw .tooLarge }
            throw .unreadable(error)
        }
        let secret = try secret(from: content.bytes).get()
        return (SecretFile(path: path, secret: secret), content.isReadableByOthers)
    }

    /// One newline at the end, `\n` or `\r\n`, is what editors and `echo` add, and no part of the secret.
    static func secret(from bytes: [UInt8]) -> Result<Secret, Failure> {
        var bytes = bytes[...]
        if bytes.last == ASCII.lineFeed {
            bytes = bytes.dropLast()
            if bytes.last == ASCII.carriageReturn { bytes = bytes.dropLast() }
        }
        if bytes.isEmpty { return .failure(.empty) }
        if bytes.count > maxBytes { return .failure(.tooLarge) }
        return .success(Secret(Array(bytes)))
    }
}

/// A file named in the configuration that is no secret: certificates, public keys, key sets.
package struct ConfigFile: Sendable, Equatable {
    package let path: String
    package let bytes: [UInt8]

    package init(path: String, bytes: [UInt8]) {
        self.path = path
        self.bytes = bytes
    }
}

import Primitives

/// Keys that name files. Relative names in the file are relative to its folder, those in variables to the working directory.
extension ConfigSection {
    /// The secret in the file the key names, or the one a variable gives in its place. `nil` when the key is absent or a problem is
    /// recorded. Readable by others is a warning. The content is never in any message.
    package func secretFile(_ key: String) -> SecretFile? {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .secretFile)) else { return nil }
        if case .secret(let secret) = node.content {
            note(key, .secret, node)
            return SecretFile(path: nil, secret: secret)
        }
        guard let name = fileName(key, node) else { return nil }
        note(key, .value(.text(name.path)), node)
        return readSecret(name) {
            fail(key, $0)
        } warn: {
            warning(key, $0)
        }
    }

    package func requiredSecretFile(_ key: String) -> SecretFile? {
        if kind(key) == nil {
            _ = ask(key, ConfigKeyRecord(recordJoined(key), .secretFile))
            problem(key, requiredMessage(key))
            return nil
        }
        return secretFile(key)
    }

    /// Each file of a list. Those that cannot be read are problems and left out.
    package func secretFiles(_ key: String) -> [SecretFile] {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .secretFiles, default: "[]")) else {
            note(key, .value(.texts([])), nil)
            return []
        }
        let nodes = Self.items(node)
        if case .secret(let secret)? = nodes.first?.content {
            note(key, .secret, node)
            return [SecretFile(path: nil, secret: secret)]
        }
        guard let names = fileNames(key, node) else { return [] }
        note(key, .value(.texts(names.map(\.path))), node)
        return names.enumerated().compactMap { index, name in
            readSecret(name) {
                failItem(key, index, nodes[index], $0)
            } warn: {
                warning(key, $0)
            }
        }
    }

    package func file(_ key: String, maxBytes: Int) -> ConfigFile? {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .file)), let name = fileName(key, node) else { return nil }
        note(key, .value(.text(name.path)), node)
        return readFile(name, maxBytes: maxBytes) { fail(key, $0) }
    }

    package func files(_ key: String, maxBytes: Int) -> [ConfigFile] {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .files, default: "[]")) else {
            note(key, .value(.texts([])), nil)
            return []
        }
        guard let names = fileNames(key, node) else { return [] }
        let nodes = Self.items(node)
        note(key, .value(.texts(names.map(\.path))), node)
        return names.enumerated().compactMap { index, name in
            readFile(name, maxBytes: maxBytes) { failItem(key, index, nodes[index], $0) }
        }
    }

    /// A file or folder that is not read now: made absolute, not looked at.
    package func filePath(_ key: String) -> String? {
        guard let node = ask(key, ConfigKeyRecord(recordJoined(key), .path)), let name = fileName(key, node) else { return nil }
        note(key, .value(.text(name.path)), node)
        return name.path
    }

    /// The absolute form of a file name that is part of the key's value (`sqlite:PATH`).
    package func resolve(_ name: String, for key: String) -> String {
        if case .file = source(key) { return absolute(name, folder: log.folder) }
        return absolute(name, folder: "")
    }

    // MARK: - Names

    private func absolute(_ name: String, folder: String) -> String {
        if name.hasPrefix("/") { return name }
        let name = name.hasPrefix("./") ? String(name.dropFirst(2)) : name
        let path = folder + name
        return path.hasPrefix("/") ? path : "\(FileBytes.workingDirectory())/\(path)"
    }

    private func absolute(_ name: String, from source: ConfigSource) -> String {
        if case .file = source { return absolute(name, folder: log.folder) }
        return absolute(name, folder: "")
    }

    /// A file to be read, and how messages call it.
    private struct Name {
        let path: String
        /// Where nothing could be read the name may be no name: somebody may have put the secret itself there.
        let unread: String
        var read: String { ConfigText.quoted(path) }

        init(_ written: String, path: String) {
            self.path = path
            unread = ConfigText.isPathLike(written) ? ConfigText.quoted(path) : "the file named here"
        }
    }

    private func fileName(_ key: String, _ node: ConfigNode) -> Name? {
        guard case .scalar(let text, _) = node.content, !node.isNull else {
            fail(key, "must be the name of a file\(got(key, node))")
            return nil
        }
        guard !text.isEmpty else {
            fail(key, "must be the name of a file (got \"\")")
            return nil
        }
        return Name(text, path: absolute(text, from: node.source))
    }

    private func fileNames(_ key: String, _ node: ConfigNode) -> [Name]? {
        guard let names = texts(key, node, "a list of file names") else { return nil }
        if let index = names.firstIndex(of: "") {
            failItem(key, index, Self.items(node)[index], "must be the name of a file (got \"\")")
            return nil
        }
        return zip(names, Self.items(node)).map { Name($0, path: absolute($0, from: $1.source)) }
    }

    // MARK: - Content

    private func readSecret(_ name: Name, fail: (String) -> Void, warn: (String) -> Void) -> SecretFile? {
        log.addFile(name.path)
        do throws(SecretFile.Failure) {
            let (file, isReadableByOthers) = try SecretFile.read(path: name.path)
            if isReadableByOthers { warn("\(name.read) can be read by every user of this machine; chmod o-r it") }
            return file
        } catch {
            switch error {
            case .unreadable(let failure): fail("cannot read \(name.unread): \(failure.message)")
            case .empty, .tooLarge: fail("\(name.read) \(error.message)")
            }
            return nil
        }
    }

    private func readFile(_ name: Name, maxBytes: Int, fail: (String) -> Void) -> ConfigFile? {
        log.addFile(name.path)
        do throws(FileBytes.Failure) {
            return ConfigFile(path: name.path, bytes: try FileBytes.read(name.path, maxBytes: maxBytes).bytes)
        } catch {
            fail("cannot read \(name.unread): \(error.message)")
            return nil
        }
    }
}

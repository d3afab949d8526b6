import Configuration

/// Every variable that the program looks at, as `help environment` and the manual page show them.
struct EnvironmentGroup: Sendable {
    struct Variable: Sendable {
        let names: [String]
        let meaning: String

        init(_ names: String..., meaning: String) {
            self.names = names
            self.meaning = meaning
        }

        fileprivate init(_ entry: EnvironmentTable.Entry, of owner: String = "") {
            names = entry.names
            meaning = "\(owner)\(entry.key)" + (entry.names.count > 1 ? ": the secret itself, or its file" : "")
        }
    }

    let title: String
    let variables: [Variable]

    static var all: [EnvironmentGroup] {
        let providers = EnvironmentTable.providerEntries
        return [
            EnvironmentGroup(
                title: "Keys of the configuration",
                variables: [Variable("CONFIG_FILE", meaning: "the configuration file, where there is no --config")]
                    + EnvironmentTable.entries.map { Variable($0) } + [
                        Variable("PORT", meaning: "listen at 0.0.0.0 with this port, unless LISTEN is set"),
                        Variable("STATE_DIRECTORY", meaning: "state at sqlite:STATE_DIRECTORY/state.db, unless there is one"),
                    ]),
            EnvironmentGroup(
                title: "One verifier of your own JWTs, in the place of sessions.verifiers",
                variables: EnvironmentTable.sessionEntries.map { Variable($0) }),
            EnvironmentGroup(
                title: "One verifier of an identity provider, in the place of sessions.verifiers",
                variables: [
                    Variable("AUTH_PROVIDER", meaning: "one of \(providers.map(\.provider).joined(separator: ", "))")
                ] + providers.flatMap { provider, entries in entries.map { Variable($0, of: "\(provider): ") } }),
            EnvironmentGroup(
                title: "Of the system",
                variables: [
                    Variable(
                        "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", meaning: "sockets of systemd, for listen: systemd"),
                    Variable(
                        "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                        meaning: "where and how often systemd is told how the server is"),
                    Variable(
                        "SSL_CERT_FILE", "SSL_CERT_DIR", meaning: "certificate authorities, in the place of the system's"),
                    Variable("SWIFT_BACKTRACE", meaning: "should be enable=no: a crash report would show memory"),
                    Variable(
                        "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                        meaning: "where one is set, the allocator stays as it says"),
                    Variable("HTTPS_PROXY", "https_proxy", meaning: "ignored, with a warning"),
                ]),
        ]
    }
}

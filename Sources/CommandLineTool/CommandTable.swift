import Revocations

/// What may stand where a value is wanted; shells complete it.
enum Choices: Sendable {
    /// Only its author knows.
    case anything
    case files
    case words([String])
    /// The name of a command, or of another page of `help`.
    case pages
}

/// One flag of a command.
struct Flag: Sendable {
    /// Without the dashes.
    let name: String
    /// One letter, `-h`.
    var letter: Character?
    /// What its value is called; `nil`: it has none.
    var value: String?
    var choices = Choices.anything
    let summary: String

    var words: [String] { ["--\(name)"] + (letter.map { ["-\($0)"] } ?? []) }
    /// As lists of flags show it: `--config FILE`.
    var label: String { ([words.joined(separator: ", ")] + [value].compactMap(\.self)).joined(separator: " ") }

    static let config = Flag(
        name: "config", value: "FILE", choices: .files,
        summary: "the configuration file; else the one named by CONFIG_FILE, else the environment alone")
    static let showClaims = Flag(name: "show-claims", summary: "show the values of claims, not only their names and types")
    static let endUserID = Flag(name: "end-user-id", value: "ID", summary: "whose tokens: the ID January knows the person by")
    static let subject = Flag(
        name: "subject", value: "SUB", summary: "whose tokens: the person as sessions name them, mapped as a session is")
    static let issuer = Flag(
        name: "issuer", value: "ISS", summary: "the namespace of the subject, where there are several session verifiers")
    static let block = Flag(
        name: "block", value: "BLOCK", choices: .words(RevocationBlock.allCases.map(\.rawValue)),
        summary: "user (the default): no new tokens until lifted; sessions: none for sessions that began before; none")
    static let reason = Flag(name: "reason", value: "TEXT", summary: "for the audit record, at most 200 characters")
    static let through = Flag(
        name: "through", value: "URL",
        summary: "ask the running server by the way apps take, and say what the proxy in front of it changes")
    static let help = Flag(name: "help", letter: "h", summary: "say what a command does")
    static let version = Flag(name: "version", summary: "print the version")
}

extension Choices {
    /// What can be told without looking anywhere.
    var words: [String] {
        switch self {
        case .anything, .files: []
        case .words(let words): words
        case .pages: CommandTable.commands.map(\.name) + [HelpCommand.environmentPage]
        }
    }
}

/// One command. `help`, the manual page and the completions of shells are made from these.
struct Command: Sendable {
    let name: String
    /// One line for the list of commands.
    let summary: String
    /// For `help COMMAND`, one paragraph an item.
    var details: [String] = []
    var flags: [Flag] = []
    /// The name of the one word it may take; `nil`: none.
    var operand: String?
    var needsOperand = false
    var choices = Choices.anything
    let exitCodes: [(code: ExitCode, meaning: String)]
    let run: @Sendable (Invocation) -> ExitCode
}

/// All commands, in the order in which they are listed.
enum CommandTable {
    static let commands: [Command] = [
        serve, check, config, explain, doctor, revoke, hashID, healthcheck, completion, manual, version, help,
    ]

    /// Without a command.
    static let standard = serve

    static let flags: [Flag] = [
        .config, .showClaims, .through, .endUserID, .subject, .issuer, .block, .reason, .help, .version,
    ]

    static func command(_ name: String) -> Command? { commands.first { $0.name == name } }

    private static let badConfiguration = (code: ExitCode.configuration, meaning: "the configuration is wrong")

    private static let sources =
        "The configuration is the file given with --config, else the one named by CONFIG_FILE, else the environment alone. No path is searched. Variables win over the file."

    static let serve = Command(
        name: "serve", summary: "run the server until SIGTERM or SIGINT, then drain (the default)",
        details: [
            sources,
            "The first signal starts the drain: requests that were accepted are answered, and new connections go elsewhere. A second signal ends the server at once. The log goes to standard output.",
        ],
        flags: [.config],
        exitCodes: [
            (.ok, "drained, or stopped by a second signal with nothing open"),
            (.failed, "cut short by a second signal, or failed in another way"),
            (.unavailable, "an address cannot be listened on, or the state cannot be opened"), badConfiguration,
        ],
        run: ServeCommand.run)

    static let check = Command(
        name: "check", summary: "say everything that is wrong with the configuration",
        details: [
            sources,
            "Every problem and every warning is one line on standard error, with file, line and key. The policy tests are run. No connection is opened.",
        ],
        flags: [.config], exitCodes: [(.ok, "nothing is wrong"), badConfiguration], run: CheckCommand.run)

    static let config = Command(
        name: "config", summary: "print the effective configuration and where each line comes from",
        details: [
            sources,
            "The output is YAML that --config accepts. Each line ends with its source. Secrets are never in it: those from the environment are comments, and user info and queries of URLs are <redacted>.",
        ],
        flags: [.config], exitCodes: [(.ok, "printed"), badConfiguration], run: ConfigCommand.run)

    static let explain = Command(
        name: "explain", summary: "say step by step what becomes of one app session",
        details: [
            sources,
            "Reads the session from standard input: by itself, or as the field line it comes in (\"Authorization: Bearer …\"). Key sets are loaded from their URLs. January is not asked. One line a step: its name, ok, failed or skipped, and what was found; after a failure the configuration line that decides. The session itself is never printed.",
        ],
        flags: [.config, .showClaims],
        exitCodes: [
            (.ok, "accepted"), (.failed, "refused"), (.unknown, "could not find out: a key set cannot be loaded"),
            badConfiguration,
        ],
        run: ExplainCommand.run)

    static let doctor = Command(
        name: "doctor", summary: "ask everything the server depends on whether it would do its part",
        details: [
            sources,
            "One line each, ok, failed or skipped, with a fix behind what failed: the API keys at January, this machine's clock against January's, client tokens (one is minted for a made-up end user and revoked), key sets, the state, Redis, the audit file, the trace collector, the certificate of the public listener, and proxies that the running server has seen. Nothing is changed.",
            "With --through https://api.example.com it asks the running server by the public way instead: is Authorization lost, are answers changed, cached or compressed, may callers choose their address, are CORS fields added, does the proxy keep connections longer than the server, is the management listener reachable? What is asked is proven by the API key, so any machine with the configuration will do. Nothing is minted.",
        ],
        flags: [.config, .through],
        exitCodes: [(.ok, "nothing failed"), (.failed, "something failed"), badConfiguration],
        run: DoctorCommand.run)

    static let revoke = Command(
        name: "revoke", summary: "revoke all client tokens of one person through the running server",
        details: [
            sources,
            "Asks the management API at management.listen with the first of management.token_files. A wildcard address becomes loopback. One of --end-user-id and --subject is needed. The server's answer, JSON, goes to standard output.",
            "What was accepted survives a crash and is never given up; a pending revocation needs no second command.",
        ],
        flags: [.config, .endUserID, .subject, .issuer, .block, .reason],
        exitCodes: [
            (.ok, "complete: every token is revoked"), (.failed, "refused, or nobody answers: nothing was promised"),
            (.pending, "accepted, and not complete yet"), badConfiguration,
        ],
        run: RevokeCommand.run)

    static let hashID = Command(
        name: "hash-id", summary: "print the keyed hash under which an end-user ID appears in logs",
        details: [
            sources,
            "The hash is that of log lines, audit records and Redis keys, under log.hash_secret_file, else under the key that is kept in state. Nothing is changed.",
        ],
        flags: [.config], operand: "ID", needsOperand: true,
        exitCodes: [(.ok, "printed"), (.failed, "there is no lasting key, or it cannot be read"), badConfiguration],
        run: HashIDCommand.run)

    static let healthcheck = Command(
        name: "healthcheck", summary: "ask the running server whether it is ready",
        details: [
            sources,
            "Asks /readyz at management.listen, for at most \(HealthcheckCommand.limit.components.seconds) seconds. A wildcard address becomes loopback.",
        ],
        flags: [.config], exitCodes: [(.ok, "ready"), (.failed, "not ready, or nobody answers"), badConfiguration],
        run: HealthcheckCommand.run)

    static let completion = Command(
        name: "completion", summary: "print the completion of a shell: bash, zsh or fish",
        details: [
            "For one session: source <(\(CommandLineTool.name) completion bash), or \(CommandLineTool.name) completion fish | source. For good, the output belongs into a file: /usr/share/bash-completion/completions/\(CommandLineTool.name), /usr/share/zsh/vendor-completions/_\(CommandLineTool.name) or /usr/share/fish/vendor_completions.d/\(CommandLineTool.name).fish."
        ],
        operand: "SHELL", needsOperand: true, choices: .words(Shell.allCases.map(\.rawValue)),
        exitCodes: [(.ok, "printed"), (.usage, "no shell, or an unknown one")], run: CompletionCommand.run)

    static let manual = Command(
        name: "man", summary: "print the manual page",
        details: [
            "The page is written in mdoc(7). To read it: \(CommandLineTool.name) man | man -l -. For good, the output belongs into a file: /usr/share/man/man1/\(CommandLineTool.name).1."
        ],
        exitCodes: [(.ok, "printed")], run: ManualCommand.run)

    static let version = Command(
        name: "version", summary: "print the version", exitCodes: [(.ok, "printed")], run: VersionCommand.run)

    static let help = Command(
        name: "help", summary: "list the commands, or explain one",
        details: ["help \(HelpCommand.environmentPage) lists the variables that are looked at."],
        operand: "COMMAND", choices: .pages, exitCodes: [(.ok, "printed"), (.usage, "no such command")], run: HelpCommand.run)
}

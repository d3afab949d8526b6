/// One flag of a command.
struct Flag: Sendable {
    /// Without the dashes.
    let name: String
    /// One letter, `-h`.
    var letter: Character?
    /// What its value is called; `nil`: it has none.
    var value: String?
    let summary: String

    var words: [String] { ["--\(name)"] + (letter.map { ["-\($0)"] } ?? []) }

    static let config = Flag(
        name: "config", value: "FILE",
        summary: "the configuration file; else the one named by CONFIG_FILE, else the environment alone")
    static let showClaims = Flag(name: "show-claims", summary: "show the values of claims, not only their names and types")
    static let help = Flag(name: "help", letter: "h", summary: "say what a command does")
    static let version = Flag(name: "version", summary: "print the version")
}

/// One command. `help`, and whatever else describes the program, is made from these.
struct Command: Sendable {
    let name: String
    /// One line for the list of commands.
    let summary: String
    /// For `help COMMAND`, one paragraph an item.
    var details: [String] = []
    var flags: [Flag] = []
    /// The name of the one word it may take; `nil`: none.
    var operand: String?
    let exitCodes: [(code: ExitCode, meaning: String)]
    let run: @Sendable (Invocation) -> ExitCode
}

/// All commands, in the order in which they are listed.
enum CommandTable {
    static let commands: [Command] = [serve]

    /// Without a command.
    static let standard = serve

    static let flags: [Flag] = [.config, .showClaims, .help, .version]

    static func command(_ name: String) -> Command? { commands.first { $0.name == name } }

    private static let badConfiguration = (code: ExitCode.configuration, meaning: "the configuration is wrong")

    static let serve = Command(
        name: "serve", summary: "run the server until SIGTERM or SIGINT, then drain (the default)",
        details: [
            "A second signal ends it at once."
        ],
        flags: [.config],
        exitCodes: [
            (.ok, "drained"), (.failed, "cut short by a second signal, or failed in another way"),
            (.unavailable, "an address cannot be listened on"), badConfiguration,
        ],
        run: { ServeCommand.run($0) })
    static let help = Command(name: "help", summary: "", exitCodes: [], run: { _ in .ok })
    static let version = Command(name: "version", summary: "", exitCodes: [], run: { _ in .ok })
}

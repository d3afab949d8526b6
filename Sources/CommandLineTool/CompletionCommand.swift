import Configuration

/// The shells that have a completion.
enum Shell: String, Sendable, CaseIterable {
    case bash, zsh, fish

    /// The whole script, made from ``CommandTable``.
    var completion: String {
        let lines =
            switch self {
            case .bash: BashCompletion.lines()
            case .zsh: ZshCompletion.lines()
            case .fish: FishCompletion.lines()
            }
        return lines.joined(separator: "\n")
    }
}

/// `completion SHELL`
enum CompletionCommand {
    static func run(_ invocation: Invocation) -> ExitCode {
        let name = invocation.options.operands.first ?? ""
        if let shell = Shell(rawValue: name) {
            invocation.console.print(shell.completion)
            return .ok
        }
        let names = Shell.allCases.map(\.rawValue)
        let error =
            name.isEmpty
            ? UsageError("completion needs a shell: \(names.joined(separator: ", "))", help: "completion")
            : UsageError(
                "no completion for that shell", suggestion: Suggestion.nearest(to: name, in: names), help: "completion")
        invocation.console.complain(error.message)
        return .usage
    }
}

/// What the three scripts have in common.
enum ShellText {
    static let program = CommandLineTool.name
    /// Of functions: shells disagree about hyphens in names.
    static let function = "_" + program.replacing("-", with: "_")
    static let origin = "# Made by: \(program) completion"

    /// With these the next word is a value, and no command.
    static var flagsWithValues: [String] { CommandTable.flags.filter { $0.value != nil }.flatMap(\.words) }

    /// Where there is no command yet.
    static var firstFlags: [Flag] { CommandTable.standard.flags + [.help, .version] }

    static func flags(of command: Command) -> [Flag] { command.flags + [.help] }
}

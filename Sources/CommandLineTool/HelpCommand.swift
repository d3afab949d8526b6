import Configuration

/// `help` and `help COMMAND`, made from ``CommandTable``.
enum HelpCommand {
    private static let width = 80
    private static let name = CommandLineTool.name
    /// `help environment`, beside the pages of the commands.
    static let environmentPage = "environment"
    static let environmentRule =
        "Variables win over the file of the configuration. An empty one counts as unset; lists are comma-separated."

    static func run(_ invocation: Invocation) -> ExitCode {
        guard let operand = invocation.options.operands.first else {
            invocation.console.print(overview().joined(separator: "\n"))
            return .ok
        }
        if operand == environmentPage {
            invocation.console.print(environment().joined(separator: "\n"))
            return .ok
        }
        guard let command = CommandTable.command(operand) else {
            invocation.console.complain(UsageError.unknownCommand(operand).message)
            return .usage
        }
        invocation.console.print(page(of: command).joined(separator: "\n"))
        return .ok
    }

    static func overview() -> [String] {
        let column = CommandTable.commands.map(\.name.count).max() ?? 0
        var lines = ["usage: \(name) [COMMAND] [--config FILE]", ""]
        lines += ["Gives apps with a session of yours a short-lived client token for January.", "", "commands:"]
        for command in CommandTable.commands { lines += entry(command.name, command.summary, column: column) }
        return lines + ["", "\(name) help COMMAND says more about one,", "\(name) help \(environmentPage) lists the variables."]
    }

    static func environment() -> [String] {
        var lines = wrapped(environmentRule, indent: 0)
        for group in EnvironmentGroup.all {
            lines += [""] + wrapped(group.title + ":", indent: 0)
            for variable in group.variables {
                lines += wrapped(variable.names.joined(separator: ", "), indent: 2) + wrapped(variable.meaning, indent: 6)
            }
        }
        return lines
    }

    static func page(of command: Command) -> [String] {
        var lines = wrapped("usage: \(usage(of: command))", indent: 0)
        lines += ["", "\(sentence(command.summary))"]
        for paragraph in command.details { lines += [""] + wrapped(paragraph, indent: 0) }
        if !command.flags.isEmpty {
            lines += ["", "flags:"]
            let labels = command.flags.map(\.label)
            let column = labels.map(\.count).max() ?? 0
            for (label, flag) in zip(labels, command.flags) { lines += entry(label, flag.summary, column: column) }
        }
        lines += ["", "exit code:"]
        let column = command.exitCodes.map { String($0.code.rawValue).count }.max() ?? 0
        for (code, meaning) in command.exitCodes { lines += entry(String(code.rawValue), meaning, column: column) }
        return lines
    }

    private static func usage(of command: Command) -> String {
        var words = [name, command.name]
        for flag in command.flags { words.append("[\(flag.words[0])\(flag.value.map { " \($0)" } ?? "")]") }
        if let operand = command.operand { words.append(command.needsOperand ? operand : "[\(operand)]") }
        return words.joined(separator: " ")
    }

    static func sentence(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() + "." }

    private static func entry(_ label: String, _ text: String, column: Int) -> [String] {
        var lines = wrapped(text, indent: column + 4)
        let padded = "  " + label + String(repeating: " ", count: column - label.count + 2)
        lines[0] = padded + lines[0].drop { $0 == " " }
        return lines
    }

    /// At least one line.
    private static func wrapped(_ text: String, indent: Int) -> [String] {
        let margin = String(repeating: " ", count: indent)
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ") {
            if !line.isEmpty && indent + line.count + 1 + word.count > width {
                lines.append(margin + line)
                line = ""
            }
            line += (line.isEmpty ? "" : " ") + word
        }
        return lines + [margin + line]
    }
}

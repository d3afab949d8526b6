import TokenEndpoint

/// `man`: the manual page in mdoc(7), made from ``CommandTable`` and ``EnvironmentGroup``.
enum ManualCommand {
    /// Of the version. A page has to have one, and the day it is built on would make every archive another one.
    private static let date = "November 30, 2026"
    private static let width = 78

    static func run(_ invocation: Invocation) -> ExitCode {
        invocation.console.print(page().joined(separator: "\n"))
        return .ok
    }

    static func page() -> [String] {
        head() + description() + commands() + environment() + exitStatus() + examples()
    }

    private static func head() -> [String] {
        let name = CommandLineTool.name
        var lines = [".Dd \(date)", ".Dt \(name.uppercased()) 1", ".Os", ".Sh NAME", ".Nm \(name)"]
        lines += [".Nd client tokens of January for apps with sessions of yours", ".Sh SYNOPSIS"]
        for command in CommandTable.commands {
            // Without a command it is this one.
            let isStandard = command.name == CommandTable.standard.name
            lines +=
                [".Nm", isStandard ? ".Op Cm \(command.name)" : ".Cm \(command.name)"]
                + arguments(of: command)
        }
        return lines
    }

    /// One line each.
    private static func arguments(of command: Command) -> [String] {
        command.flags.map { ".Op Fl -\($0.name)\($0.value.map { " Ar \($0)" } ?? "")" }
            + (command.operand.map { [command.needsOperand ? ".Ar \($0)" : ".Op Ar \($0)"] } ?? [])
    }

    private static func description() -> [String] {
        [".Sh DESCRIPTION"]
            + text(
                "Gives apps with a session of yours a short-lived client token for January: it verifies the session, decides who that is and what they may use, asks January with the account's secret key and passes January's answer on. This page is that of version \(TokenEndpoint.version)."
            )
    }

    private static func commands() -> [String] {
        var lines = [".Sh COMMANDS", ".Bl -tag -width Ds"]
        for command in CommandTable.commands {
            // Several macros that are no arguments of each other: `Xo` to `Xc`.
            lines += [".It Xo", ".Cm \(command.name)"] + arguments(of: command) + [".Xc"]
            lines += text(HelpCommand.sentence(command.summary))
            for paragraph in command.details { lines += [".Pp"] + text(paragraph) }
            if !command.flags.isEmpty {
                lines += [".Pp", ".Bl -tag -width Ds -compact"]
                for flag in command.flags { lines += item(of: flag) }
                lines.append(".El")
            }
            lines += [".Pp", "Exit status:", ".Bl -tag -width 78 -compact"]
            for (code, meaning) in command.exitCodes { lines += [".It \(code.rawValue)"] + text(meaning) }
            lines.append(".El")
        }
        lines += [".El", ".Pp", "Everywhere:", ".Bl -tag -width Ds -compact"]
        for flag in [Flag.help, .version] { lines += item(of: flag) }
        return lines + [".El"]
    }

    private static func item(of flag: Flag) -> [String] {
        let words = ["Fl -\(flag.name)"] + (flag.letter.map { ["Fl \($0)"] } ?? [])
        return [".It \(words.joined(separator: " , "))\(flag.value.map { " Ar \($0)" } ?? "")"] + text(flag.summary)
    }

    private static func environment() -> [String] {
        var lines = [".Sh ENVIRONMENT"] + text(HelpCommand.environmentRule)
        for group in EnvironmentGroup.all {
            lines += [".Ss \(group.title)", ".Bl -tag -width Ds -compact"]
            for variable in group.variables {
                lines += [".It " + variable.names.map { "Ev \($0)" }.joined(separator: " , ")] + text(variable.meaning)
            }
            lines.append(".El")
        }
        return lines
    }

    private static func exitStatus() -> [String] {
        var lines = [".Sh EXIT STATUS"] + text("What each means for one command stands with the command.")
        lines.append(".Bl -tag -width 78 -compact")
        for code in ExitCode.allCases { lines += [".It \(code.rawValue)"] + text(code.summary) }
        return lines + [".El"]
    }

    private static func examples() -> [String] {
        let name = CommandLineTool.name
        let examples = [
            ("What is wrong with a configuration:", "\(name) check --config config.yaml"),
            ("What becomes of one session, which is read from standard input:", "\(name) explain --config config.yaml <session"),
            (
                "All tokens of one person, through the server that runs with the same configuration:",
                "\(name) revoke --config config.yaml --end-user-id user-1"
            ),
        ]
        return [".Sh EXAMPLES"]
            + examples.enumerated().flatMap { index, example in
                (index == 0 ? [] : [".Pp"]) + text(example.0) + [".Dl " + escaped(example.1)]
            }
    }

    /// Every sentence begins a line, and none is longer than 80 characters, as mdoc(7) wants it.
    private static func text(_ paragraph: String) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in paragraph.split(separator: " ") {
            let isNext = line.hasSuffix(".") && word.first?.isUppercase == true
            let word = escaped(String(word))
            if isNext || (!line.isEmpty && line.utf8.count + 1 + word.utf8.count > width) {
                lines.append(line)
                line = ""
            }
            line += (line.isEmpty ? "" : " ") + word
        }
        return (lines + [line]).map { $0.hasPrefix(".") || $0.hasPrefix("'") ? "\\&" + $0 : $0 }
    }

    /// A hyphen that is typed stays one: `\-`. What is not ASCII is named by its number.
    private static func escaped(_ text: String) -> String {
        var result = ""
        for (index, word) in text.split(separator: " ", omittingEmptySubsequences: false).enumerated() {
            if index > 0 { result += " " }
            let isTyped = word.hasPrefix("-") || word.contains("/") || word.hasPrefix(CommandLineTool.name)
            for character in word.unicodeScalars {
                switch character {
                case "\\": result += "\\e"
                case "-" where isTyped: result += "\\-"
                case _ where character.isASCII: result.unicodeScalars.append(character)
                default:
                    let digits = String(character.value, radix: 16, uppercase: true)
                    result += "\\[u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits + "]"
                }
            }
        }
        return result
    }
}

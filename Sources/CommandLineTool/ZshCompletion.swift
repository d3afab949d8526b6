/// For the function search path (`fpath`), and for `source <(…)` once `compinit` has run.
enum ZshCompletion {
    static func lines() -> [String] {
        let name = "_" + ShellText.program
        var lines = ["#compdef \(ShellText.program)", "\(ShellText.origin) zsh", "\(name)() {"]
        lines += ["    local context state state_descr line", "    typeset -A opt_args", "    _arguments -C \\"]
        lines += ShellText.firstFlags.map { "        \(specification(of: $0)) \\" }
        lines += ["        '1:command:->command' '*::argument:->argument' && return", "    case $state in", "        command)"]
        lines.append("            local -a commands=(")
        for command in CommandTable.commands {
            lines.append("                " + quoted(escaped(command.name, ":") + ":" + escaped(command.summary, ":")))
        }
        lines += ["            )", "            _describe -t commands command commands ;;", "        argument)"]
        lines.append("            case $words[1] in")
        for command in CommandTable.commands {
            var parts = ShellText.flags(of: command).map(specification)
            if let operand = command.operand { parts.append(quoted("1:\(operand):\(action(command.choices))")) }
            lines.append("                \(command.name)) _arguments \(parts.joined(separator: " ")) ;;")
        }
        return lines + [
            "            esac ;;", "    esac", "}",
            "if [[ $funcstack[1] == \(name) ]]; then \(name) \"$@\"; else compdef \(name) \(ShellText.program); fi",
        ]
    }

    /// `_arguments`: `-x[text]:NAME:action`, behind a long flag with a value also after `=`.
    private static func specification(of flag: Flag) -> String {
        let text = "[\(escaped(flag.summary, "[]:"))]"
        let value = flag.value.map { ":\($0):\(action(flag.choices))" } ?? ""
        let equals = flag.value == nil ? "" : "="
        // Help and version end the line; each other flag may be given once.
        let excludes = flag.value == nil && [Flag.help.name, Flag.version.name].contains(flag.name) ? quoted("(- *)") : ""
        let words = flag.words.count == 1 ? flag.words[0] : "{" + flag.words.joined(separator: ",") + "}"
        return excludes + words + equals + quoted(text + value)
    }

    private static func action(_ choices: Choices) -> String {
        switch choices {
        case .anything: " "
        case .files: "_files"
        case .words, .pages: "(\(choices.words.joined(separator: " ")))"
        }
    }

    private static func escaped(_ text: String, _ special: String) -> String {
        text.reduce(into: "") { $0 += ($1 == "\\" || special.contains($1) ? "\\" : "") + String($1) }
    }

    private static func quoted(_ text: String) -> String { "'" + text.replacing("'", with: "'\\''") + "'" }
}

/// For fish 3 and later.
enum FishCompletion {
    private static let prefix = "complete -c \(ShellText.program)"
    private static let isCommand = "_" + ShellText.function + "_is"

    static func lines() -> [String] {
        var lines = ["\(ShellText.origin) fish"] + functions + ["\(prefix) -f"]
        for command in CommandTable.commands {
            lines.append("\(condition("")) -a \(command.name) -d \(quoted(command.summary))")
        }
        lines += ShellText.firstFlags.map { "\(condition("")) \(flag($0))" }
        for command in CommandTable.commands {
            lines += ShellText.flags(of: command).map { "\(condition(command.name)) \(flag($0))" }
            if !command.choices.words.isEmpty {
                lines.append("\(condition(command.name)) -a \(quoted(command.choices.words.joined(separator: " ")))")
            }
        }
        return lines
    }

    /// fish's own `__fish_seen_subcommand_from` takes the value of a flag for a command.
    private static var functions: [String] {
        [
            "function \(isCommand)", "    set -l command ''", "    set -l waiting", "    for word in (commandline -opc)[2..-1]",
            "        if set -q waiting[1]", "            set -e waiting[1]", "            continue", "        end",
            "        switch $word", "            case \(ShellText.flagsWithValues.joined(separator: " "))",
            "                set waiting $word", "            case '-*'", "            case '*'",
            "                set command $word",
            "                break", "        end", "    end", "    test \"$command\" = \"$argv[1]\"", "end",
        ]
    }

    private static func condition(_ command: String) -> String {
        "\(prefix) -n \(quoted("\(isCommand) \(command.isEmpty ? "\"\"" : command)"))"
    }

    private static func flag(_ flag: Flag) -> String {
        let value =
            switch flag.choices {
            case _ where flag.value == nil: ""
            case .anything: " -x"
            case .files: " -r -F"
            case .words, .pages: " -x -a \(quoted(flag.choices.words.joined(separator: " ")))"
            }
        return "-l \(flag.name)" + (flag.letter.map { " -s \($0)" } ?? "") + value + " -d \(quoted(flag.summary))"
    }

    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }
}

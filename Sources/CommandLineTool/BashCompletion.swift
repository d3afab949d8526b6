/// For bash 4 and later, with or without the package bash-completion. `=` may or may not break words (`COMP_WORDBREAKS`).
enum BashCompletion {
    static func lines() -> [String] {
        let function = ShellText.function
        return ["\(ShellText.origin) bash", "\(function)() {"] + words + values() + commands() + [
            "    [[ $operands -eq 0 ]] || words=''",
            "    if [[ -z $literal && ( $current == -* || -z $words ) ]]; then words=$flags; fi",
            "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")", "}",
            "complete -F \(function) \(ShellText.program)",
        ]
    }

    /// Which command, which flag waits for its value, how many words behind the command.
    private static var words: [String] {
        [
            "    local current=${COMP_WORDS[COMP_CWORD]} command='' waiting='' literal='' prefix='' flags='' words='' operands=0 index word",
            "    COMPREPLY=()", "    for ((index = 1; index < COMP_CWORD; index++)); do", "        word=${COMP_WORDS[index]}",
            "        if [[ -n $waiting ]]; then", "            [[ $word == '=' ]] || waiting=''",
            "        elif [[ -z $literal && $word == -- ]]; then", "            literal=yes",
            "        elif [[ -z $literal && $word == -* ]]; then",
            "            case $word in \(ShellText.flagsWithValues.joined(separator: "|"))) waiting=$word ;; esac",
            "        elif [[ -z $command ]]; then", "            command=$word", "        else",
            "            operands=$((operands + 1))",
            "        fi", "    done", "    if [[ -n $waiting && $current == '=' ]]; then", "        current=''",
            "    elif [[ -z $waiting && -z $literal && $current == --*=* ]]; then",
            "        waiting=${current%%=*} prefix=${current%%=*}= current=${current#*=}", "    fi",
        ]
    }

    private static func values() -> [String] {
        var lines = ["    case $waiting in", "        '') ;;"]
        for flag in CommandTable.flags where flag.value != nil {
            let label = "        " + flag.words.joined(separator: "|") + ")"
            switch flag.choices {
            case .anything: lines.append("\(label) return ;;")
            case .files:
                lines += [
                    label, "            compopt -o filenames 2>/dev/null",
                    "            mapfile -t COMPREPLY < <(compgen -P \"$prefix\" -f -- \"$current\")", "            return ;;",
                ]
            case .words, .pages:
                lines += [
                    label,
                    "            mapfile -t COMPREPLY < <(compgen -P \"$prefix\" -W '\(flag.choices.words.joined(separator: " "))' -- \"$current\")",
                    "            return ;;",
                ]
            }
        }
        return lines + ["        *) return ;;", "    esac"]
    }

    private static func commands() -> [String] {
        func line(_ name: String, _ flags: [Flag], _ words: [String]) -> String {
            "        \(name)) flags='\(flags.flatMap(\.words).joined(separator: " "))' words='\(words.joined(separator: " "))' ;;"
        }
        return ["    case $command in", line("''", ShellText.firstFlags, CommandTable.commands.map(\.name))]
            + CommandTable.commands.map { line($0.name, ShellText.flags(of: $0), $0.choices.words) }
            + ["        *) return ;;", "    esac"]
    }
}

import Configuration
import Primitives

/// What is wrong with the arguments, and what was perhaps meant. Exit code 64.
struct UsageError: Error, Equatable {
    let message: String

    init(_ text: String, suggestion: String? = nil, help command: String? = nil) {
        let hint = suggestion.map { "did you mean \($0)?" } ?? "see \(CommandLineTool.name) help\(command.map { " \($0)" } ?? "")"
        message = "\(CommandLineTool.name): \(text); \(hint)"
    }
}

/// The flags and words given to one command.
struct Options: Equatable {
    /// By flag, without the dashes; a flag without a value is the empty text.
    var values: [String: String] = [:]
    var operands: [String] = []

    func has(_ flag: Flag) -> Bool { values[flag.name] != nil }
    func value(_ flag: Flag) -> String? { values[flag.name] }
}

/// `[COMMAND] [--flag [VALUE] | --flag=VALUE | WORD]… [-- WORD…]`. Flags may stand before the command; without a command it is `serve`.
struct Arguments {
    private let words: [String]

    init(_ words: [String]) { self.words = words }

    func resolve() throws(UsageError) -> (Command, Options) {
        var flags: [(word: String, flag: Flag, value: String)] = []
        var unknown: String?
        var operands: [String] = []
        var rest = words[...]
        while let word = rest.popFirst() {
            if word == "--" {
                // An end-user ID may begin with a dash.
                operands += rest
                break
            }
            guard word.hasPrefix("-"), word != "-" else {
                operands.append(word)
                continue
            }
            let equals = word.firstIndex(of: "=")
            let name = String(word[..<(equals ?? word.endIndex)])
            guard let flag = CommandTable.flags.first(where: { $0.words.contains(name) }) else {
                unknown = unknown ?? name
                continue
            }
            let attached = equals.map { String(word[word.index(after: $0)...]) }
            flags.append((name, flag, try value(of: flag, word: name, attached: attached, rest: &rest)))
        }
        // What follows an unknown flag may be its value, and no command.
        let known = operands.first.flatMap(CommandTable.command)
        // Who asks for help gets it, whatever else is wrong.
        if flags.contains(where: { $0.flag.name == Flag.help.name }) {
            return (CommandTable.help, Options(operands: known.map { [$0.name] } ?? []))
        }
        if let unknown { throw UsageError.unknownFlag(unknown, of: known ?? CommandTable.standard) }
        if let first = operands.first, known == nil { throw UsageError.unknownCommand(first) }
        let command = known ?? CommandTable.standard
        operands = Array(operands.dropFirst())
        if flags.contains(where: { $0.flag.name == Flag.version.name }) { return (CommandTable.version, Options()) }
        var options = Options()
        for (word, flag, value) in flags {
            guard command.flags.contains(where: { $0.name == flag.name }) else { throw UsageError.unknownFlag(word, of: command) }
            guard options.values.updateValue(value, forKey: flag.name) == nil else {
                throw UsageError("\(word) is given twice", help: command.name)
            }
        }
        // Not repeated: what stands there by mistake may well be a session or a key.
        if operands.count > (command.operand == nil ? 0 : 1) {
            throw UsageError("\(command.name) takes \(command.operand == nil ? "no" : "one") argument", help: command.name)
        }
        options.operands = operands
        return (command, options)
    }

    private func value(
        of flag: Flag, word: String, attached: String?, rest: inout ArraySlice<String>
    ) throws(UsageError) -> String {
        guard let valueName = flag.value else {
            if attached != nil { throw UsageError("\(word) takes no value") }
            return ""
        }
        let value = attached ?? rest.popFirst() ?? ""
        if value.isEmpty { throw UsageError("\(word) needs a value: \(word) \(valueName)") }
        return value
    }
}

extension UsageError {
    static func unknownCommand(_ word: String) -> UsageError {
        // Shown only where it can be a slip of the pen, and nothing that has to stay secret.
        let isWord = word.utf8.count <= 24 && word.utf8.allSatisfy { ASCII.isLetter($0) || $0 == UInt8(ascii: "-") }
        return UsageError(
            isWord ? "unknown command \(ConfigText.quoted(word))" : "unknown command",
            suggestion: Suggestion.nearest(to: word, in: CommandTable.commands.map(\.name)))
    }

    fileprivate static func unknownFlag(_ word: String, of command: Command) -> UsageError {
        let known = (command.flags + [.help]).flatMap(\.words).filter { $0.hasPrefix("--") }
        return UsageError(
            "\(command.name) has no flag \(ConfigText.quoted(word))", suggestion: Suggestion.nearest(to: word, in: known),
            help: command.name)
    }
}

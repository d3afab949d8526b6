/// `config`: the configuration in force, every default and what presets expanded to, as YAML that loads again.
enum ConfigCommand {
    static func run(_ invocation: Invocation) -> ExitCode {
        let loaded = LoadedConfiguration(invocation)
        guard loaded.config != nil else { return loaded.refuse(invocation.console) }
        var text = loaded.reader.printed()
        // The console ends the last line.
        if text.last == "\n" { text.removeLast() }
        invocation.console.print(text)
        return .ok
    }
}

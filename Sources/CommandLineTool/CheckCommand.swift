/// `check`: everything that is wrong with the configuration, without side effects. Loading runs the policy tests; nothing is connected to.
enum CheckCommand {
    static func run(_ invocation: Invocation) -> ExitCode {
        let loaded = LoadedConfiguration(invocation)
        for warning in loaded.reader.warnings { invocation.console.complain("warning: \(warning)") }
        guard loaded.config != nil else { return loaded.refuse(invocation.console) }
        invocation.console.print("ok")
        return .ok
    }
}

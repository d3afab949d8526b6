import TokenEndpoint

/// `version`
enum VersionCommand {
    static func run(_ invocation: Invocation) -> ExitCode {
        invocation.console.print("\(CommandLineTool.name) \(TokenEndpoint.version)")
        return .ok
    }
}

import Configuration
import Glibc
import Primitives

/// The program: arguments in, one command run, an exit code out.
///
/// * ``CommandTable`` is the list of commands as data; `help`, the manual page (``ManualCommand``) and the completions of shells
///   (``Shell``) are made from it.
/// * Each command is one file with one function from an ``Invocation`` to an ``ExitCode``. It writes through a ``Console``: results to
///   standard output, everything else to standard error.
/// * Every command that needs the configuration loads it through ``LoadedConfiguration``, so that they all agree on what is wrong with it.
///
/// Nothing printed holds a key, a session or a token. Exit codes follow `sysexits.h` where it has one.
package enum CommandLineTool {
    package static let name = "january-token-endpoint"

    /// What the process does from its first instruction to its last. Not isolated to the main actor: the closures that commands hand to
    /// queues and loops must not inherit an actor that never runs.
    package static func main() -> Int32 {
        SystemConsole.occupyStandardDescriptors()
        let arguments = CommandLine.arguments.dropFirst()
        return run(Array(arguments), environment: FileBytes.processEnvironment(), console: SystemConsole()).rawValue
    }

    /// - Parameter arguments: without the name of the program.
    package static func run(_ arguments: [String], environment: [String: String], console: any Console) -> ExitCode {
        let arguments = Arguments(arguments)
        let code: ExitCode
        do throws(UsageError) {
            let (command, options) = try arguments.resolve()
            code = command.run(Invocation(options: options, environment: environment, console: console))
        } catch {
            console.complain(error.message)
            return .usage
        }
        // A result that nobody could read is none: `config > /dev/full`.
        return code == .ok && console.hasFailed ? .failed : code
    }
}

/// What a command is given.
struct Invocation {
    let options: Options
    let environment: [String: String]
    let console: any Console
}

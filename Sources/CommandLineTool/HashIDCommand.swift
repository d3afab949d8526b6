import Primitives
import Telemetry
import TokenEndpoint

/// `hash-id ID`: how an end user appears in logs and audit records.
enum HashIDCommand {
    static func run(_ invocation: Invocation) -> ExitCode {
        let console = invocation.console
        guard let id = invocation.options.operands.first, !id.isEmpty else {
            console.complain(UsageError("hash-id needs an end-user ID", help: "hash-id").message)
            return .usage
        }
        let loaded = LoadedConfiguration(invocation)
        guard let config = loaded.config else { return loaded.refuse(console) }
        guard let secret = config.log.hashSecret?.secret else {
            console.complain(
                "there is no log.hash_secret_file: the key of the hashes is a random one of each process, and ends with it")
            return .failed
        }
        console.print(EndUserHash(secret: secret).hash(id))
        return .ok
    }
}

import Primitives
import Revocations
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
        var secret = config.log.hashSecret?.secret
        if secret == nil {
            do throws(StateOpenError) {
                secret = try key(of: config.state)
            } catch {
                console.complain(error.description)
                return .failed
            }
        }
        guard let secret else {
            console.complain(
                "there is neither a log.hash_secret_file nor a state: the key of the hashes is a random one of each process, and ends"
                    + " with it")
            return .failed
        }
        console.print(EndUserHash(secret: secret).hash(id))
        return .ok
    }

    private static func key(of state: StateConfig) throws(StateOpenError) -> Secret? {
        switch state {
        case .none: nil
        case .sqlite(let path): try SQLiteState.hashKey(at: path)
        case .redis(let redis): try SharedStateKey.read(redis)
        }
    }
}

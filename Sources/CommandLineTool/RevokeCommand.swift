import EventLoop
import HTTPMessage
import Primitives
import Revocations
import StrictJSON
import TokenEndpoint

/// `revoke`: one request to the management API of the running server.
enum RevokeCommand {
    /// The server answers within 10 s, complete or not.
    static let limit = Duration.seconds(15)

    static func run(_ invocation: Invocation) -> ExitCode {
        let console = invocation.console
        let body: JSONObject
        do throws(UsageError) {
            body = try self.body(invocation.options)
        } catch {
            console.complain(error.message)
            return .usage
        }
        let loaded = LoadedConfiguration(invocation)
        guard let config = loaded.config else { return loaded.refuse(console) }
        guard let address = RunningServer.address(config, console) else { return .failed }
        guard let token = config.management.tokens.first else {
            console.complain("management.token_files is empty: without a token nothing can be revoked")
            return .failed
        }
        guard let request = request(body, token.secret) else {
            console.complain("the first management token has characters that no HTTP field can hold")
            return .failed
        }
        return report(ServerQuestion.ask(RunningServer.addresses(for: address), request, within: limit), address, console)
    }

    private static func body(_ options: Options) throws(UsageError) -> JSONObject {
        guard options.has(.endUserID) != options.has(.subject) else {
            throw UsageError("revoke needs one of --end-user-id and --subject", help: "revoke")
        }
        if options.has(.issuer) && !options.has(.subject) {
            throw UsageError("--issuer belongs to --subject", help: "revoke")
        }
        if let block = options.value(.block), RevocationBlock(rawValue: block) == nil {
            throw UsageError("--block must be user, sessions or none", help: "revoke")
        }
        var body: JSONObject = [:]
        for (name, flag) in [
            ("end_user_id", Flag.endUserID), ("subject", .subject), ("issuer", .issuer), ("block", .block), ("reason", .reason),
        ] {
            body[name] = options.value(flag).map(JSONValue.string)
        }
        return body
    }

    private static func request(_ body: JSONObject, _ token: Secret) -> [UInt8]? {
        let content = body.encoded()
        var fields = FieldBlock()
        do throws(FieldError) {
            try fields.append(.authorization, secret: token, prefix: "Bearer ")
        } catch {
            return nil
        }
        var request = Array("POST /january/client-token-revocations HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".utf8)
        request += fields.bytes
        request += Array("Content-Type: application/json\r\nContent-Length: \(content.count)\r\n\r\n".utf8)
        return request + content
    }

    private static func report(
        _ answer: ServerQuestion.Answer, _ address: SocketAddress, _ console: any Console
    ) -> ExitCode {
        switch answer {
        case .response(let status, let content):
            let text = String(decoding: content, as: UTF8.self)
            if status == 200 || status == 202 {
                console.print(text)
                return status == 200 ? .ok : .pending
            }
            console.complain("\(address): \(problem(status, content))")
        case .failed(.unreachable): console.complain("\(address): nobody listens there; nothing was revoked")
        case .failed(.noLoop): console.complain("cannot ask; nothing was revoked")
        case .failed(.timedOut):
            console.complain("\(address): no answer in \(limit.components.seconds) s; it is not known whether this was accepted")
        case .failed(.unreadable):
            console.complain("\(address): the answer is not one of this server's; it is not known whether this was accepted")
        }
        return .failed
    }

    /// `400 bad_request, block: Must be user, sessions or none.`
    private static func problem(_ status: Int, _ content: [UInt8]) -> String {
        var text = "HTTP \(status)"
        do throws(JSONParseError) {
            guard let object = try JSONValue.parse(content).object, let code = object["code"]?.string else { return text }
            text += " \(code)"
            if let member = object["member"]?.string { text += ", \(member)" }
            if let message = object["message"]?.string { text += ": \(message)" }
        } catch {
            return text
        }
        return RunningServer.printable(text)
    }
}

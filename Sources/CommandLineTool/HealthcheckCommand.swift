import EventLoop
import Primitives
import StrictJSON
import TokenEndpoint

/// `healthcheck`: asks the running server whether it is ready, for images without curl.
enum HealthcheckCommand {
    /// For everything: connecting, asking, the answer.
    static let limit = Duration.seconds(5)

    static func run(_ invocation: Invocation) -> ExitCode {
        let console = invocation.console
        let loaded = LoadedConfiguration(invocation)
        guard let config = loaded.config else { return loaded.refuse(console) }
        guard let address = RunningServer.address(config, console) else { return .failed }
        let request = Array("GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        let answer = ServerQuestion.ask(RunningServer.addresses(for: address), request, within: limit)
        if case .response(status: 200, _) = answer {
            console.print("ready")
            return .ok
        }
        console.complain("\(address): not ready: \(text(answer))")
        return .failed
    }

    private static func text(_ answer: ServerQuestion.Answer) -> String {
        switch answer {
        case .response(let status, let content):
            let text = text(content)
            return "HTTP \(status)\(text.isEmpty ? "" : ": \(text)")"
        case .failed(.unreachable): return "nobody listens there"
        case .failed(.timedOut): return "no answer in \(limit.components.seconds) s"
        case .failed(.unreadable): return "the answer is not one of this server's"
        case .failed(.noLoop): return "cannot ask"
        }
    }

    /// `starting, waiting for jwks:auth0`; empty when the body is not ours.
    private static func text(_ body: [UInt8]) -> String {
        let document: JSONValue
        do throws(JSONParseError) {
            document = try JSONValue.parse(body.span.bytes)
        } catch {
            return ""
        }
        guard let object = document.object, let status = object["status"]?.string else { return "" }
        let names = object["waiting_for"]?.array?.compactMap(\.string) ?? []
        return RunningServer.printable(
            ([status] + (names.isEmpty ? [] : ["waiting for \(names.joined(separator: ", "))"])).joined(separator: ", "))
    }
}

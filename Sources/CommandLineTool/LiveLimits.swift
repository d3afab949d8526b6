import HTTPMessage
import Primitives
import StrictJSON
import TokenEndpoint

/// What the running server's rate limits have refused, from its `/status.json`: for `explain`. Which cell is whose nobody can ask; what is shown
/// is the cell that was refused last by each limit.
enum LiveLimits {
    private static let patience = Duration.seconds(1)

    /// `nil` where no server answers: it need not run for a session to be explained.
    static func text(_ config: RootConfig) -> String? {
        guard let address = config.management.address?.socketAddress, address.port != 0, let request = request(config),
            case .response(200, let content) = ServerQuestion.ask(
                RunningServer.addresses(for: address), request, within: patience)
        else { return nil }
        do throws(JSONParseError) {
            return text(try JSONValue.parse(content))
        } catch {
            return nil
        }
    }

    private static func request(_ config: RootConfig) -> [UInt8]? {
        var fields = FieldBlock()
        if let token = config.management.tokens.first {
            do throws(FieldError) {
                try fields.append(.authorization, secret: token.secret, prefix: "Bearer ")
            } catch {
                return nil
            }
        }
        return Array("GET /status.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".utf8) + fields.bytes
            + Array("\r\n".utf8)
    }

    /// `per_session has refused 3, the last 2.1 s ago, 1.5 of its 10 used; per_end_user has refused none`
    static func text(_ status: JSONValue) -> String? {
        guard let rules = status.object?["limits"]?.object?["rules"]?.array else { return nil }
        let texts = rules.compactMap { rule -> String? in
            guard let rule = rule.object, let name = rule["limit"]?.string, let count = rule["refused_total"]?.number?.text else {
                return nil
            }
            guard let last = rule["last_refused"]?.object, let ago = last["seconds_ago"]?.number?.text,
                let used = last["used"]?.number?.text, let burst = last["of"]?.number?.text
            else { return "\(name) has refused none" }
            return "\(name) has refused \(count), the last \(ago) s ago, \(used) of its \(burst) used"
        }
        return texts.isEmpty ? nil : RunningServer.printable(texts.joined(separator: "; "))
    }
}

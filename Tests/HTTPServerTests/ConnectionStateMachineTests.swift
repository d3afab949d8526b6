import HTTPMessage
import Primitives
import Testing

@testable import HTTPServer

/// Every state meets every event, without a socket.
struct ConnectionStateMachineTests {
    enum Phase: String, CaseIterable, Sendable {
        case idle, head, content, serving, lingering, closed
    }

    enum Event: String, CaseIterable, Sendable {
        case emptyLine, partOfAHead, wholeHead, malformed, partOfTheContent, restOfTheContent, tooMuchContent
        case admitWithoutContent, admitWithContent, respondAndGoOn, respondAndClose, timeOut, close
    }

    private static let limits = HTTPLimits(bodyBytes: 10)
    private static let head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    /// What the machine did with the bytes, without what they said.
    private static func step(_ machine: inout ConnectionStateMachine, _ text: String) -> String {
        var content: [UInt8] = []
        let bytes = Array(text.utf8)
        let (step, consumed) = machine.receive(bytes.span.bytes, limits: limits, content: &content)
        let kept = content.isEmpty ? "" : " keeping \(content.count)"
        let used = consumed == bytes.count ? "all" : "\(consumed)"
        return switch step {
        case .needMore: "needMore \(used)"
        case .head: "head \(used)"
        case .contentProgress: "progress \(used)\(kept)"
        case .complete: "complete \(used)\(kept)"
        case .refuse(let error): "refuse \(error.reason.rawValue) \(used)"
        case .discarded: "discarded \(used)"
        }
    }

    private static func parsedHead(_ text: String) throws -> RequestHead {
        var parser = RequestHeadParser(limits: limits)
        let bytes = Array(text.utf8)
        return try #require(try parser.parse(bytes.span.bytes)).head
    }

    private static func machine(in phase: Phase) throws -> ConnectionStateMachine {
        var machine = ConnectionStateMachine()
        switch phase {
        case .idle: break
        case .head: _ = step(&machine, "POST / HTTP/1.1\r\nHo")
        case .content:
            _ = step(&machine, head)
            _ = machine.admit(try parsedHead(head), limits: limits, keepsContent: true)
        case .serving: _ = step(&machine, head)
        case .lingering:
            _ = step(&machine, head)
            machine.responded(closes: true)
        case .closed: machine.close()
        }
        #expect(self.phase(machine) == phase)
        return machine
    }

    private static func phase(_ machine: ConnectionStateMachine) -> Phase {
        switch machine.state {
        case .idle: .idle
        case .head: .head
        case .content: .content
        case .serving: .serving
        case .lingering: .lingering
        case .closed: .closed
        }
    }

    /// The head that is begun in the state `head` is shown from its first byte, as its caller would.
    private static func run(_ event: Event, _ machine: inout ConnectionStateMachine) throws -> String {
        switch event {
        case .emptyLine: return step(&machine, "\r\n")
        case .partOfAHead: return step(&machine, "POST / HTTP/1.1\r\nHost: x")
        case .wholeHead: return step(&machine, head + "rest")
        case .malformed: return step(&machine, "POST / HTTP/1.1\r\nHost : x\r\n\r\nGET / HTTP/1.1\r\n")
        case .partOfTheContent: return step(&machine, "3\r\nab")
        case .restOfTheContent: return step(&machine, "3\r\nabc\r\n0\r\n\r\nnext")
        case .tooMuchContent: return step(&machine, "b\r\n")
        case .admitWithoutContent:
            let head = try parsedHead("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return "\(machine.admit(head, limits: limits, keepsContent: true))"
        case .admitWithContent: return "\(machine.admit(try parsedHead(head), limits: limits, keepsContent: true))"
        case .respondAndGoOn: machine.responded(closes: false)
        case .respondAndClose: machine.responded(closes: true)
        case .timeOut: machine.timedOut()
        case .close: machine.close()
        }
        return ""
    }

    /// What is not in here changes nothing: bytes that wait while a request is served, bytes that are thrown away behind the last
    /// response, and events that mean nothing in a state.
    private static let table: [Phase: [Event: (next: Phase, outcome: String)]] = [
        .idle: [
            .emptyLine: (.idle, "needMore 0"), .partOfAHead: (.head, "needMore 0"), .wholeHead: (.serving, "head 56"),
            .malformed: (.serving, "refuse whitespace_before_colon all"),
            .partOfTheContent: (.serving, "refuse request_line_malformed all"),
            .restOfTheContent: (.serving, "refuse request_line_malformed all"),
            .tooMuchContent: (.serving, "refuse request_line_malformed all"),
        ],
        .head: [
            .emptyLine: (.head, "needMore 0"), .partOfAHead: (.head, "needMore 0"), .wholeHead: (.serving, "head 56"),
            .malformed: (.serving, "refuse whitespace_before_colon all"), .partOfTheContent: (.head, "needMore 0"),
            .restOfTheContent: (.head, "needMore 0"), .tooMuchContent: (.head, "needMore 0"), .timeOut: (.serving, ""),
        ],
        .content: [
            .emptyLine: (.serving, "refuse chunk_size_invalid all"), .partOfAHead: (.serving, "refuse chunk_size_invalid all"),
            .wholeHead: (.serving, "refuse chunk_size_invalid all"), .malformed: (.serving, "refuse chunk_size_invalid all"),
            .partOfTheContent: (.content, "progress all keeping 2"), .restOfTheContent: (.serving, "complete 13 keeping 3"),
            .tooMuchContent: (.serving, "refuse content_too_large all"), .timeOut: (.serving, ""),
        ],
        .serving: [
            .admitWithContent: (.content, "true"), .respondAndGoOn: (.idle, ""), .respondAndClose: (.lingering, ""),
        ],
        .lingering: [:],
        .closed: [:],
    ]

    private static func unchanged(_ phase: Phase, _ event: Event) -> (next: Phase, outcome: String) {
        switch event {
        case .close: (.closed, "")
        case .admitWithContent, .admitWithoutContent: (phase, "false")
        case .respondAndGoOn, .respondAndClose, .timeOut: (phase, "")
        case .emptyLine, .partOfAHead, .wholeHead, .malformed, .partOfTheContent, .restOfTheContent, .tooMuchContent:
            (phase, phase == .serving ? "needMore 0" : "discarded all")
        }
    }

    @Test(arguments: Phase.allCases, Event.allCases)
    func aStateAndAnEventLeadTo(phase: Phase, event: Event) throws {
        var machine = try Self.machine(in: phase)
        let outcome = try Self.run(event, &machine)
        let expected = Self.table[phase]?[event] ?? Self.unchanged(phase, event)
        #expect(outcome == expected.outcome)
        #expect(Self.phase(machine) == expected.next)
    }

    /// An unfinished message is in a box: what is idle is one word.
    @Test
    func aConnectionBetweenRequestsNeedsOneWord() {
        #expect(MemoryLayout<ConnectionStateMachine>.size <= 9)
    }
}

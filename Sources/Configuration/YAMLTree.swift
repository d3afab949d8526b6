import CYaml
import Primitives

/// A YAML file as a tree with line numbers, made from libyaml's events.
///
/// What hides the meaning of a line is refused (see the module), each with its line and path; where the rest can still be read it is, so
/// that all problems come at once. After a syntax error nothing can be said about the rest: `isComplete` is false.
struct YAMLTree {
    /// Limits with their reasons in one place: bytes bound the work, levels the recursion of every later reader, key bytes keep every key
    /// within libyaml's 1024 characters for a key on one line, however it has to be escaped when printed.
    static let maxBytes = 1 << 20
    static let maxDepth = 16
    static let maxKeyBytes = 250

    private(set) var root = ConfigMapping()
    /// Line of the first key; 1 for an empty file.
    private(set) var rootLine = 1
    private(set) var isComplete = true
    private(set) var problems: [Note] = []

    struct Note: Equatable {
        /// `nil` when the file as a whole is meant.
        let line: Int?
        let path: String
        let message: String
    }

    init(_ bytes: [UInt8]) {
        if bytes.count > Self.maxBytes {
            stop(nil, "the file has \(bytes.count) bytes, more than the \(Self.maxBytes) allowed")
            return
        }
        do throws(UTF8.ValidationError) {
            _ = try UTF8Span(validating: bytes.span)
        } catch {
            stop(Self.line(in: bytes, at: error.byteOffsets.lowerBound), "invalid UTF-8")
            return
        }
        parse(bytes)
    }

    // MARK: - Events

    private enum Pending {
        case none
        case name(String, line: Int)
        /// The value that follows belongs to a key that was refused.
        case discarded
    }

    /// A list or mapping that has begun and not ended. A class, so that adding a member copies nothing.
    private final class Frame {
        let line: Int
        let isMapping: Bool
        var nodes: [ConfigNode] = []
        var mapping = ConfigMapping()
        /// Where each key of the mapping was first seen.
        var lines: [String: Int] = [:]
        var pending = Pending.none

        init(isMapping: Bool, line: Int) {
            self.isMapping = isMapping
            self.line = line
        }

        var isKeyNext: Bool {
            if case .none = pending { return isMapping }
            return false
        }
    }

    private mutating func parse(_ bytes: [UInt8]) {
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else { return stop(nil, "out of memory") }
        defer { yaml_parser_delete(parser) }
        // With its encoding set, libyaml takes a byte order mark for content.
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let bytes = bytes.starts(with: mark) ? Array(bytes.dropFirst(mark.count)) : bytes
        bytes.withUnsafeBufferPointer { buffer in
            yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
            yaml_parser_set_input_string(parser, buffer.baseAddress, buffer.count)
            readEvents(parser, bytes)
        }
    }

    private mutating func readEvents(_ parser: UnsafeMutablePointer<yaml_parser_t>, _ bytes: [UInt8]) {
        var stack: [Frame] = []
        var documentCount = 0
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else { return refuseSyntax(parser.pointee, bytes) }
            defer { yaml_event_delete(&event) }
            let line = Int(event.start_mark.line) + 1
            switch event.type {
            case YAML_STREAM_END_EVENT: return
            case YAML_DOCUMENT_START_EVENT:
                documentCount += 1
                if documentCount > 1 { return note(line, [], "a second document begins here; one file holds one document") }
            case YAML_ALIAS_EVENT:
                note(
                    line, stack,
                    "aliases (*\(ConfigText.shortened(Self.text(event.data.alias.anchor)))) are not supported; write the value out"
                )
                if let frame = stack.last, frame.isKeyNext {
                    frame.pending = .discarded
                } else {
                    add(ConfigNode(content: .refused, source: .file(line: line)), stack)
                }
            case YAML_SCALAR_EVENT:
                let scalar = event.data.scalar
                refuse(anchor: scalar.anchor, tag: scalar.tag, line, stack)
                let text = Self.text(scalar.value, count: scalar.length)
                let isPlain = scalar.style == YAML_PLAIN_SCALAR_STYLE
                if let frame = stack.last, frame.isKeyNext {
                    takeKey(text, isPlain: isPlain, line, stack)
                } else {
                    add(ConfigNode(content: .scalar(text, isPlain ? .plain : .quoted), source: .file(line: line)), stack)
                }
            case YAML_SEQUENCE_START_EVENT, YAML_MAPPING_START_EVENT:
                if let frame = stack.last, frame.isKeyNext {
                    return stop(line, "a key must be text, not a list or a mapping", at: stack)
                }
                if stack.count == Self.maxDepth { return stop(line, "nested deeper than \(Self.maxDepth) levels", at: stack) }
                let isMapping = event.type == YAML_MAPPING_START_EVENT
                let start = event.data
                refuse(
                    anchor: isMapping ? start.mapping_start.anchor : start.sequence_start.anchor,
                    tag: isMapping ? start.mapping_start.tag : start.sequence_start.tag, line, stack)
                stack.append(Frame(isMapping: isMapping, line: line))
            case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
                guard let frame = stack.popLast() else { return }
                let content = frame.isMapping ? ConfigNode.Content.mapping(frame.mapping) : .sequence(frame.nodes)
                add(ConfigNode(content: content, source: .file(line: frame.line)), stack)
            default: break
            }
        }
    }

    private mutating func takeKey(_ key: String, isPlain: Bool, _ line: Int, _ stack: [Frame]) {
        guard let frame = stack.last else { return }
        if isPlain && key == "<<" {
            note(line, stack, "merge keys (<<) are not supported")
            frame.pending = .discarded
            return
        }
        frame.pending = .name(key, line: line)
        if isPlain && Self.isTyped(key) {
            note(line, stack, "a key must be text; put it in quotes if \(ConfigText.quoted(key)) is meant")
        } else if key.utf8.count > Self.maxKeyBytes {
            note(line, stack, "a key may have at most \(Self.maxKeyBytes) bytes")
        } else if let first = frame.lines[key] {
            note(line, stack, "duplicate key; it is on line \(first) already")
        } else {
            frame.lines[key] = line
            return
        }
        frame.pending = .discarded
    }

    /// Puts a finished value where it belongs. A value in a mapping takes the line of its key.
    private mutating func add(_ node: ConfigNode, _ stack: [Frame]) {
        guard let frame = stack.last else { return setRoot(node) }
        guard frame.isMapping else { return frame.nodes.append(node) }
        if case .name(let key, let line) = frame.pending {
            frame.mapping.members.append(.init(key: key, value: ConfigNode(content: node.content, source: .file(line: line))))
        }
        frame.pending = .none
    }

    private mutating func setRoot(_ node: ConfigNode) {
        if case .file(let line) = node.source { rootLine = line }
        switch node.content {
        case .mapping(let mapping): root = mapping
        case .scalar where node.isNull: break
        case .sequence: stop(rootLine, "the file must hold a mapping (got a list)")
        default: stop(rootLine, "the file must hold a mapping (got one value)")
        }
    }

    // MARK: - Refusals

    private mutating func refuse(
        anchor: UnsafeMutablePointer<yaml_char_t>?, tag: UnsafeMutablePointer<yaml_char_t>?, _ line: Int, _ stack: [Frame]
    ) {
        if let anchor { note(line, stack, "anchors (&\(ConfigText.shortened(Self.text(anchor)))) are not supported") }
        if let tag {
            // As it was written: libyaml has expanded `!!`.
            let text = Self.text(tag)
            let standard = "tag:yaml.org,2002:"
            let shown = text.hasPrefix(standard) ? "!!\(text.dropFirst(standard.count))" : text
            note(line, stack, "tags (\(ConfigText.shortened(shown))) are not supported")
        }
    }

    private mutating func refuseSyntax(_ parser: yaml_parser_t, _ bytes: [UInt8]) {
        var message = parser.problem.map { String(cString: $0) } ?? "cannot be read"
        var line = Int(parser.problem_mark.line) + 1
        switch parser.error {
        case YAML_READER_ERROR: line = Self.line(in: bytes, at: Int(parser.problem_offset))
        case YAML_MEMORY_ERROR: return stop(nil, "out of memory")
        default:
            // The end of the file counts as one more line for libyaml.
            let lastLine = Self.line(in: bytes, at: bytes.count - 1)
            line = min(line, lastLine)
            if let context = parser.context.map({ String(cString: $0) }) {
                let start = min(Int(parser.context_mark.line) + 1, lastLine)
                message = start == line ? "\(message) (\(context))" : "\(message) (\(context) that begins on line \(start))"
            }
        }
        if parser.error == YAML_SCANNER_ERROR, Self.isIndentedByTab(bytes, parser.problem_mark) {
            message = "a tab at the beginning of a line; YAML is indented with spaces"
        }
        if message.hasPrefix("found invalid Unicode character escape code") {
            message += "; write characters beyond U+FFFF as they are, not as two \\u escapes"
        }
        stop(line, "invalid YAML: \(message)")
    }

    private mutating func stop(_ line: Int?, _ message: String, at stack: [Frame] = []) {
        isComplete = false
        note(line, stack, message)
    }

    private mutating func note(_ line: Int?, _ stack: [Frame], _ message: String) {
        problems.append(Note(line: line, path: Self.path(stack), message: message))
    }

    private static func path(_ stack: [Frame]) -> String {
        var path = ""
        for frame in stack {
            if !frame.isMapping {
                path += "[\(frame.nodes.count)]"
            } else if case .name(let key, _) = frame.pending {
                path += (path.isEmpty ? "" : ".") + ConfigText.pathKey(key)
            }
        }
        return path
    }

    /// A plain scalar that YAML reads as something else than text.
    private static func isTyped(_ text: String) -> Bool {
        text.isEmpty || ["~", "null", "true", "false"].contains(text) || PlainScalar.isNumber(text)
    }

    /// Whether the mark is at a tab with nothing but spaces before it.
    private static func isIndentedByTab(_ bytes: [UInt8], _ mark: yaml_mark_t) -> Bool {
        let lines = bytes.split(separator: ASCII.lineFeed, maxSplits: Int(mark.line) + 1, omittingEmptySubsequences: false)
        guard lines.indices.contains(Int(mark.line)) else { return false }
        let start = lines[Int(mark.line)].prefix(Int(mark.column) + 1)
        return start.last == ASCII.horizontalTab && start.dropLast().allSatisfy { $0 == ASCII.space }
    }

    /// Line of the byte at `offset`. Ends of lines are LF, CR LF and, as for libyaml, a CR alone.
    private static func line(in bytes: [UInt8], at offset: Int) -> Int {
        var line = 1
        for index in bytes.indices.prefix(max(0, offset)) {
            let isLineEnd =
                switch bytes[index] {
                case ASCII.lineFeed: true
                case ASCII.carriageReturn: index + 1 == bytes.count || bytes[index + 1] != ASCII.lineFeed
                default: false
                }
            if isLineEnd { line += 1 }
        }
        return line
    }

    private static func text(_ pointer: UnsafeMutablePointer<yaml_char_t>?) -> String {
        pointer.map { String(cString: $0) } ?? ""
    }

    private static func text(_ pointer: UnsafeMutablePointer<yaml_char_t>?, count: Int) -> String {
        String(decoding: UnsafeBufferPointer(start: pointer, count: count), as: UTF8.self)
    }
}

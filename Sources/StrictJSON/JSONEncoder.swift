extension JSONValue {
    /// Compact JSON text in UTF-8. Members keep their order, numbers their text.
    package func encoded() -> [UInt8] {
        var output: [UInt8] = []
        append(to: &output)
        return output
    }

    package func append(to output: inout [UInt8]) {
        switch self {
        case .null: output.append(contentsOf: "null".utf8)
        case .bool(let value): output.append(contentsOf: (value ? "true" : "false").utf8)
        case .number(let value): output.append(contentsOf: value.text.utf8)
        case .string(let value): Self.append(value, to: &output)
        case .array(let elements):
            output.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { output.append(UInt8(ascii: ",")) }
                element.append(to: &output)
            }
            output.append(UInt8(ascii: "]"))
        case .object(let object): object.append(to: &output)
        }
    }

    /// A string with its quotation marks. Only what RFC 8259 section 7 requires is escaped.
    package static func append(_ text: String, to output: inout [UInt8]) {
        let digits = StaticString("0123456789abcdef")
        output.append(UInt8(ascii: "\""))
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                output.append(UInt8(ascii: "\\"))
                output.append(byte)
            case 0x0A: output.append(contentsOf: "\\n".utf8)
            case 0x0D: output.append(contentsOf: "\\r".utf8)
            case 0x09: output.append(contentsOf: "\\t".utf8)
            case 0..<0x20:
                output.append(contentsOf: "\\u00".utf8)
                output.append(digits.utf8Start[Int(byte >> 4)])
                output.append(digits.utf8Start[Int(byte & 15)])
            default: output.append(byte)
            }
        }
        output.append(UInt8(ascii: "\""))
    }
}

extension JSONObject {
    package func encoded() -> [UInt8] {
        var output: [UInt8] = []
        append(to: &output)
        return output
    }

    package func append(to output: inout [UInt8]) {
        output.append(UInt8(ascii: "{"))
        for (index, member) in members.enumerated() {
            if index > 0 { output.append(UInt8(ascii: ",")) }
            JSONValue.append(member.name, to: &output)
            output.append(UInt8(ascii: ":"))
            member.value.append(to: &output)
        }
        output.append(UInt8(ascii: "}"))
    }
}

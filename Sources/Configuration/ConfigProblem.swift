/// One thing that is wrong, where, and what to do about it. Prints as one line:
/// `config.yaml:12: sessions.verifiers[0].issuer: must be a URL (got "x")` or `environment: LISTEN: must be …`.
package struct ConfigProblem: Sendable, Equatable, CustomStringConvertible {
    package enum Place: Sendable, Equatable {
        /// The file as it was named by the operator. `line` counts from 1; `nil` when the file as a whole is meant.
        case file(name: String, line: Int?)
        case environment(variable: String)
        /// There is no file, and no variable either that sets the key.
        case configuration
    }

    package let place: Place
    /// Dots and indices, `sessions.verifiers[0].issuer`; empty where the place says it all.
    package let path: String
    package let message: String

    package init(place: Place, path: String, message: String) {
        self.place = place
        self.path = path
        self.message = message
    }

    package var description: String {
        let tail = path.isEmpty ? message : "\(path): \(message)"
        return switch place {
        case .file(let name, let line?): "\(name):\(line): \(tail)"
        case .file(let name, nil): "\(name): \(tail)"
        case .environment(let variable): "environment: \(variable): \(tail)"
        case .configuration: "configuration: \(tail)"
        }
    }

    /// File order first, then the environment; problems of one line stay in the order they were found.
    static func sorted(_ problems: [ConfigProblem]) -> [ConfigProblem] {
        func rank(_ problem: ConfigProblem) -> Int {
            switch problem.place {
            case .file(_, let line): line ?? 0
            case .environment: Int.max - 1
            case .configuration: Int.max
            }
        }
        return problems.enumerated()
            .sorted { (rank($0.element), $0.offset) < (rank($1.element), $1.offset) }
            .map(\.element)
    }
}

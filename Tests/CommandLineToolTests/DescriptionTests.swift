import Configuration
import Foundation
import Testing

@testable import CommandLineTool

/// What is made from the table of commands beside `help`: the manual page, the completions, the list of variables.
@Suite struct DescriptionTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test func theManualHasEveryCommandFlagExitCodeAndVariable() throws {
        let run = Run(["man"])
        #expect(run.code == .ok)
        #expect(run.errors == "")
        let commands = try #require(section("COMMANDS", of: run.lines))
        let items = commands.split(omittingEmptySubsequences: false) { $0 == ".It Xo" }.dropFirst().map(Array.init)
        #expect(items.count == CommandTable.commands.count)
        for (command, item) in zip(CommandTable.commands, items) {
            #expect(item.first == ".Cm \(command.name)")
            for flag in command.flags {
                #expect(item.contains { $0.hasPrefix(".It Fl -\(flag.name)") }, "\(command.name) \(flag.name)")
            }
            for (code, meaning) in command.exitCodes {
                let index = try #require(item.firstIndex(of: ".It \(code.rawValue)"))
                #expect(item[index + 1].hasPrefix(meaning.prefix(60)), "\(command.name)")
            }
        }
        #expect(commands.contains(".It Fl -help , Fl h") && commands.contains(".It Fl -version"))
        let status = try #require(section("EXIT STATUS", of: run.lines))
        for code in ExitCode.allCases { #expect(status.contains(".It \(code.rawValue)")) }
        let environment = try #require(section("ENVIRONMENT", of: run.lines)).joined(separator: " ")
        for variable in EnvironmentTable.variables { #expect(environment.contains("Ev \(variable) "), "\(variable)") }
    }

    private func section(_ name: String, of lines: [String]) -> [String]? {
        guard let start = lines.firstIndex(of: ".Sh \(name)") else { return nil }
        return Array(lines[(start + 1)...].prefix { !$0.hasPrefix(".Sh ") })
    }

    /// Every sentence begins a line, and none begins with what would be a macro.
    @Test func theManualIsTextWhereItIsText() {
        for line in Run(["man"]).lines where !line.hasPrefix(".") {
            #expect(line.utf8.allSatisfy { $0 < 128 })
            #expect(!line.contains(". ") && !line.hasPrefix("'"), "\(line)")
        }
    }

    @Test func everyCompletionHasEveryCommandAndFlag() {
        for shell in Shell.allCases {
            let run = Run(["completion", shell.rawValue])
            #expect(run.code == .ok)
            for command in CommandTable.commands {
                #expect(run.output.contains(command.name), "\(shell): \(command.name)")
                for flag in command.flags + [.help, .version] {
                    #expect(run.output.contains(shell == .fish ? "-l \(flag.name)" : "--\(flag.name)"), "\(shell): \(flag.name)")
                }
            }
        }
    }

    @Test func helpListsTheVariables() {
        let run = Run(["help", "environment"])
        #expect(run.code == .ok)
        #expect(Run(["help"]).output.contains("help environment"))
        #expect(run.lines.allSatisfy { $0.count <= 80 })
        for group in EnvironmentGroup.all {
            #expect(run.output.contains(group.title))
            for name in group.variables.flatMap(\.names) {
                #expect(run.output.contains("\(name)\n") || run.output.contains("\(name),"), "\(name)")
            }
        }
    }

    /// Once each, all that the configuration reads, and all that any other code asks for by name.
    @Test func noVariableIsForgotten() throws {
        let names = EnvironmentGroup.all.flatMap(\.variables).flatMap(\.names)
        #expect(Set(names).count == names.count)
        #expect(Set(names).isSuperset(of: EnvironmentTable.variables))
        let files = FileManager.default.enumerator(at: Self.root.appending(path: "Sources"), includingPropertiesForKeys: nil)
        var found: Set<String> = []
        for case let file as URL in try #require(files) where file.pathExtension == "swift" {
            // What the simulator and points to crash at read is for tests.
            if file.path.contains("/JanuarySimulator/") || file.lastPathComponent == "CrashPoint.swift" { continue }
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(of: /environment\["([A-Z_a-z]+)"\]/) { found.insert(String(match.output.1)) }
        }
        #expect(found.contains("CONFIG_FILE") && found.contains("LISTEN_FDS"))
        #expect(found.subtracting(names) == [])
    }
}

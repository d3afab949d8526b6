import Foundation
import TestSupport
import Testing

/// The completions in the shells they are for, and the manual page in the programs that show it.
@Suite(.serialized) struct CompletionTests {
    /// Where no command stands yet: those that `help` lists.
    private static func commands() throws -> [String] {
        try Finished(["help"]).output.split(separator: "\n").compactMap { line in
            line.hasPrefix("  ") && !line.hasPrefix("   ") ? line.split(separator: " ").first.map(String.init) : nil
        }
    }

    private static func isThere(_ program: String) -> Bool { FileManager.default.isExecutableFile(atPath: program) }

    /// A folder with the script of a shell and a file whose name has a space.
    private struct Scripts: ~Copyable {
        let folder: String
        var script: String { folder + "_script" }
        var file: String { folder + "my config.yaml" }

        init(_ shell: String) throws {
            folder = FileManager.default.temporaryDirectory.appending(path: "january-shell-\(UUID().uuidString)").path + "/"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let run = try Finished(["completion", shell])
            guard run.code == 0 else { throw Child.Failure(what: run.errors) }
            try ServerScenario.write(script, run.output)
            try ServerScenario.write(file, "")
        }

        deinit { try? FileManager.default.removeItem(atPath: folder) }
    }

    // MARK: bash

    /// - Parameter words: as readline splits them; the last one is where the cursor is.
    private static func bash(_ words: [String], _ script: String) throws -> [String] {
        let function = """
            set -u; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _january_token_endpoint
            for reply in "${COMPREPLY[@]}"; do printf '%s\\n' "$reply"; done
            """
        let run = try Finished(
            ["--norc", "--noprofile", "-c", function, "bash", script, "january-token-endpoint"] + words, program: "/bin/bash")
        guard run.code == 0, run.errors.isEmpty else { throw Child.Failure(what: "\(words): \(run.errors)") }
        return run.output.split(separator: "\n").map(String.init)
    }

    private static let lines: [(words: [String], replies: [String])] = [
        (["ch"], ["check"]), (["--config", "c.yaml", "ex"], ["explain"]), (["--config=c.yaml", "ex"], ["explain"]),
        (["--config", "=", "c.yaml", "ex"], ["explain"]), (["--v"], ["--version"]), (["nonsense", ""], []),
        (["check", ""], ["--config", "--help", "-h"]), (["check", "-"], ["--config", "--help", "-h"]),
        (["revoke", "--bl"], ["--block"]), (["revoke", "--block", ""], ["none", "sessions", "user"]),
        (["revoke", "--block", "s"], ["sessions"]), (["revoke", "--block", "="], ["none", "sessions", "user"]),
        (["revoke", "--block", "=", "s"], ["sessions"]), (["revoke", "--block=s"], ["--block=sessions"]),
        (["revoke", "--end-user-id", "ch"], []), (["revoke", "--end-user-id", "check", "--bl"], ["--block"]),
        (["help", "hea"], ["healthcheck"]), (["help", "env"], ["environment"]), (["help", "check", "c"], []),
        (["completion", ""], ["bash", "fish", "zsh"]), (["hash-id", "--", "-"], []),
    ]

    @Test(arguments: lines)
    func bashCompletes(words: [String], replies: [String]) async throws {
        try await onOwnThread {
            let scripts = try Scripts("bash")
            #expect(try Self.bash(words, scripts.script).sorted() == replies.sorted())
        }
    }

    @Test func bashCompletesCommandsAndFiles() async throws {
        try await onOwnThread {
            let scripts = try Scripts("bash")
            let commands = try Self.commands()
            #expect(commands.count >= 12)
            #expect(try Self.bash([""], scripts.script) == commands)
            for words in [["check", "--config", scripts.folder + "my"], ["--config", "=", scripts.folder + "my"]] {
                #expect(try Self.bash(words, scripts.script) == [scripts.file])
            }
            #expect(try Self.bash(["--config=\(scripts.folder)my"], scripts.script) == ["--config=" + scripts.file])
            // Every command and every flag of its page.
            for command in commands {
                let page = try Finished(["help", command]).output
                let flags = page.matches(of: /\n  (--[a-z-]+)/).map { String($0.output.1) }
                #expect(Set(try Self.bash([command, "--"], scripts.script)).isSuperset(of: flags + ["--help"]), "\(command)")
            }
        }
    }

    // MARK: fish

    @Test(.enabled(if: isThere("/usr/bin/fish"), "fish is not installed"))
    func fishCompletes() async throws {
        try await onOwnThread {
            let scripts = try Scripts("fish")
            func fish(_ line: String) throws -> [String] {
                let run = try Finished(
                    [
                        "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", scripts.script,
                        "january-token-endpoint " + line,
                    ],
                    environment: ["HOME": scripts.folder], program: "/usr/bin/fish")
                guard run.errors.isEmpty else { throw Child.Failure(what: run.errors) }
                return run.output.split(separator: "\n").map { String($0.prefix { $0 != "\t" }) }.sorted()
            }
            #expect(try fish("") == Self.commands().sorted())
            for (line, replies) in [
                ("ch", ["check"]), ("--config c.yaml ex", ["explain"]), ("--config=c.yaml ex", ["explain"]),
                ("revoke --block ", ["none", "sessions", "user"]), ("revoke --block=s", ["--block=sessions"]),
                ("revoke --bl", ["--block"]), ("check --", ["--config", "--help"]), ("help hea", ["healthcheck"]),
                ("completion ", ["bash", "fish", "zsh"]), ("revoke --end-user-id check --sh", []),
                ("--v", ["--version"]), ("nonsense ", []),
                ("check --config \(scripts.folder)my", [scripts.file.replacing(" ", with: "\\ ")]),
            ] {
                let found = try fish(line)
                #expect(found == replies || found.map { $0.replacing(" ", with: "\\ ") } == replies, "\(line): \(found)")
            }
        }
    }

    // MARK: zsh

    /// Starts a shell on a terminal of its own, types one line and a TAB once its line editor has the terminal, and says what was offered.
    private static let zshProgram = #"""
        zmodload zsh/zpty
        zpty shell "ZDOTDIR=${(q)1} zsh -d -i"
        local line
        while zpty -r shell line && [[ $line != *begin:* ]]; do :; done
        zpty -n -w shell "january-token-endpoint $2"$'\t'
        while zpty -r shell line; do
            line=${line//[$'\r\n']/}
            [[ $line == *end:* ]] && break
            [[ $line == *reply:* ]] && print -r -- ${line##*reply:}
        done
        zpty -d shell
        """#
    /// What that shell reads at its start: the completion, and a `compadd` that says what it is given.
    private static let zshSettings = #"""
        PROMPT= RPROMPT=
        setopt no_beep
        autoload -Uz compinit
        compinit -u -D
        source $ZDOTDIR/_script
        compadd() {
            local -a found
            if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
            builtin compadd -O found "$@"
            local word
            for word in $found; do print -r -- "reply:$word"; done
            builtin compadd "$@"
        }
        offer() { compstate[list]= compstate[insert]=; _main_complete; print end:; }
        zle -C offer complete-word offer
        bindkey '^I' offer
        zle-line-init() { print begin: }
        zle -N zle-line-init

        """#

    @Test(.enabled(if: isThere("/usr/bin/zsh"), "zsh is not installed"))
    func zshCompletes() async throws {
        try await onOwnThread {
            let scripts = try Scripts("zsh")
            let syntax = try Finished(["-f", "-n", scripts.script], program: "/usr/bin/zsh")
            #expect(syntax.code == 0 && syntax.errors == "")
            try ServerScenario.write(scripts.folder + ".zshrc", Self.zshSettings)
            func zsh(_ line: String) throws -> [String] {
                let run = try Finished(
                    ["-f", "-c", Self.zshProgram, "zsh", scripts.folder, line],
                    environment: ["HOME": scripts.folder, "TERM": "dumb"],
                    program: "/usr/bin/zsh")
                guard run.errors.isEmpty else { throw Child.Failure(what: run.errors) }
                return run.output.split(separator: "\n").map(String.init).sorted()
            }
            #expect(try zsh("") == Self.commands().sorted())
            for (line, replies) in [
                ("ch", ["check"]), ("--config c.yaml ex", ["explain"]), ("revoke --block ", ["none", "sessions", "user"]),
                ("revoke --bl", ["--block"]), ("help hea", ["healthcheck"]), ("completion ", ["bash", "fish", "zsh"]),
                ("check --config \(scripts.folder)my", [#"my\ config.yaml"#]),
            ] {
                let found = try zsh(line)
                #expect(found == replies, "\(line): \(found)")
            }
        }
    }

    // MARK: The manual page

    @Test(.enabled(if: isThere("/usr/bin/mandoc"), "mandoc is not installed"))
    func mandocHasNothingToSay() async throws {
        try await onOwnThread {
            let page = try Finished(["man"]).output
            let lint = try Finished(["-T", "lint", "-W", "style"], input: page, program: "/usr/bin/mandoc")
            #expect(lint.output == "")
            #expect(lint.code == 0)
        }
    }

    @Test(.enabled(if: isThere("/usr/bin/man"), "man is not installed"))
    func manShowsIt() async throws {
        try await onOwnThread {
            let page = try Finished(["man"]).output
            let run = try Finished(
                ["--warnings", "-E", "UTF-8", "-l", "-"],
                environment: ["MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""],
                input: page, program: "/usr/bin/man")
            #expect(run.errors == "")
            #expect(run.code == 0)
            for text in [
                "--config FILE", "revoke [--config FILE] [--end-user-id ID]", "\nEXIT STATUS\n",
                "SESSION_HMAC_SECRET, SESSION_HMAC_SECRET_FILE",
            ] {
                #expect(run.output.contains(text), "\(text): \(run.output)")
            }
        }
    }
}

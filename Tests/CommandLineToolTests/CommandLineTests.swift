import Configuration
import EventLoop
import Foundation
import Primitives
import StrictJSON
import TestSupport
import Testing

@testable import CommandLineTool

/// One run of the tool in this process, for commands that end by themselves.
struct Run {
    let code: ExitCode
    let output: String
    let errors: String

    init(_ arguments: [String], environment: [String: String] = [:], input: String = "") {
        let console = MemoryConsole(input: Array(input.utf8))
        code = CommandLineTool.run(arguments, environment: environment, console: console)
        output = console.output
        errors = console.errors
    }

    var lines: [String] { output.split(separator: "\n").map(String.init) }
}

@Suite struct UsageTests {
    static let hint = "see january-token-endpoint help"

    @Test(arguments: [
        (["serv"], "unknown command \"serv\"; did you mean serve?"),
        (["chekc"], "unknown command \"chekc\"; did you mean check?"),
        (["doctor", "x"], "doctor takes no argument; \(hint) doctor"),
        (["relay"], "unknown command \"relay\"; \(hint)"),
        (["hash-id"], "hash-id needs an end-user ID; \(hint) hash-id"),
        (["hash-id", ""], "hash-id needs an end-user ID; \(hint) hash-id"),
        (["hash-id", "u1", "u2"], "hash-id takes one argument; \(hint) hash-id"),
        (["revoke"], "revoke needs one of --end-user-id and --subject; \(hint) revoke"),
        (["revoke", "u1"], "revoke takes no argument; \(hint) revoke"),
        (["revoke", "--end-user-id", "u", "--subject", "s"], "revoke needs one of --end-user-id and --subject; \(hint) revoke"),
        (["revoke", "--end-user-id", "u", "--issuer", "i"], "--issuer belongs to --subject; \(hint) revoke"),
        (["revoke", "--end-user-id", "u", "--block", "all"], "--block must be user, sessions or none; \(hint) revoke"),
        (["revoke", "--user", "u"], "revoke has no flag \"--user\"; \(hint) revoke"),
        (["check", "--confg", "x.yaml"], "check has no flag \"--confg\"; did you mean --config?"),
        (["--confg", "x.yaml"], "serve has no flag \"--confg\"; did you mean --config?"),
        (["--confg=x.yaml"], "serve has no flag \"--confg\"; did you mean --config?"),
        (["check", "--show-claims"], "check has no flag \"--show-claims\"; \(hint) check"),
        (["version", "--config", "x"], "version has no flag \"--config\"; \(hint) version"),
        (["check", "--config"], "--config needs a value: --config FILE; \(hint)"),
        (["check", "--config="], "--config needs a value: --config FILE; \(hint)"),
        (["check", "--config", ""], "--config needs a value: --config FILE; \(hint)"),
        (["explain", "--show-claims=1"], "--show-claims takes no value; \(hint)"),
        (["check", "--config", "a", "--config=b"], "--config is given twice; \(hint) check"),
        (["check", "x.yaml"], "check takes no argument; \(hint) check"),
        (["explain", "sk-secret"], "explain takes no argument; \(hint) explain"),
        (["completion"], "completion needs a shell: bash, zsh, fish; \(hint) completion"),
        (["completion", "zhs"], "no completion for that shell; did you mean zsh?"),
        (["completion", "tcsh-of-mine"], "no completion for that shell; \(hint) completion"),
        (["man", "serve"], "man takes no argument; \(hint) man"),
        (["help", "check", "config"], "help takes one argument; \(hint) help"),
        (["help", "serv"], "unknown command \"serv\"; did you mean serve?"),
        (["sk-0123456789"], "unknown command; \(hint)"), ([""], "unknown command \"\"; \(hint)"),
        (["eyJhbGciOiJIUzI1NiJ9.e30.c2ln"], "unknown command; \(hint)"),
    ])
    func aSlipIsNamedAndNothingRuns(arguments: [String], message: String) {
        let run = Run(arguments)
        #expect(run.code == .usage)
        #expect(run.errors == "january-token-endpoint: \(message)\n")
        #expect(run.output == "")
    }

    @Test func versionIsOneLine() {
        for arguments in [["version"], ["--version"]] {
            let run = Run(arguments)
            #expect(run.code == .ok)
            #expect(run.output.wholeMatch(of: /january-token-endpoint [0-9]+\.[0-9]+\.[0-9]+\n/) != nil)
        }
    }

    @Test(arguments: CommandTable.commands.map(\.name))
    func helpKnowsEveryCommand(name: String) throws {
        let command = try #require(CommandTable.command(name))
        #expect(Run(["help"]).output.contains("  \(name) "))
        let page = Run(["help", name])
        #expect(page.code == .ok)
        #expect(page.output.hasPrefix("usage: january-token-endpoint \(name)"))
        for flag in command.flags { #expect(page.output.contains("--\(flag.name)")) }
        #expect(page.output.split(separator: "\n").allSatisfy { $0.count <= 80 })
        #expect(Run([name, "--help"]).output == page.output)
        #expect(Run(["-h", name]).output == page.output)
        #expect(Run([name, "--nonsense", "--help"]).output == page.output)
    }

    @Test func helpIsGivenWithoutACommand() {
        #expect(Run(["--help"]).output == Run(["help"]).output)
        #expect(Run(["--help"]).code == .ok)
    }

    @Test func everyExitCodeOfACommandIsDescribedOnce() {
        for command in CommandTable.commands {
            #expect(!command.exitCodes.isEmpty)
            #expect(Set(command.exitCodes.map(\.code)).count == command.exitCodes.count)
        }
        #expect(ExitCode.allCases.map(\.rawValue) == [0, 1, 2, 3, 64, 69, 78])
    }
}

@Suite struct ConfigurationCommandTests {
    private let secrets: SecretsFolder

    init() throws { secrets = try SecretsFolder() }

    private func file(_ text: String) throws -> String { try secrets.write("config.yaml", text) }

    static let good = """
        january: { api_key_file: january_api_key }
        sessions:
          verifiers:
            - { type: jwt, issuer: "https://i.example", audience: a, hmac_secret_file: session_secret, algorithms: [HS256] }
        features: [food_search]

        """

    static let environment = [
        "JANUARY_API_KEY": SecretsFolder.apiKey, "SESSION_ISSUER": "https://i.example", "SESSION_AUDIENCE": "a",
        "SESSION_HMAC_SECRET": SecretsFolder.sessionSecret, "SESSION_ALGORITHMS": "HS256", "FEATURES": "food_search",
    ]

    @Test func checkSaysOK() throws {
        let path = try file(Self.good)
        for run in [
            Run(["check", "--config", path]), Run(["check", "--config=\(path)"]), Run(["--config", path, "check"]),
            Run(["check"], environment: ["CONFIG_FILE": path]), Run(["check"], environment: Self.environment),
            // An empty variable counts as unset.
            Run(["check"], environment: Self.environment.merging(["CONFIG_FILE": ""]) { $1 }),
            // The flag wins.
            Run(["check", "--config", path], environment: ["CONFIG_FILE": "/nonexistent.yaml"]),
        ] {
            #expect(run.code == .ok)
            #expect(run.output == "ok\n")
            #expect(run.errors == "")
        }
    }

    @Test func everyProblemIsALineWithItsPlace() throws {
        let path = try file(
            """
            listen: nowhere
            january: { api_key_file: missing, budget_seconds: 0 }
            sessions:
              verifiers:
                - { type: jwt, issuer: "https://i.example", audience: a, hmac_secret_file: session_secret, algorithms: [HS256, RS256] }
            featurs: [food_search]
            features: [food_search]

            """)
        let run = Run(["check", "--config", path], environment: ["LOG_LEVEL": "loud"])
        #expect(run.code == .configuration)
        #expect(run.output == "")
        let lines = run.errors.split(separator: "\n").map { $0.replacingOccurrences(of: path, with: "config.yaml") }
        #expect(
            lines.map { $0.split(separator: " ").prefix(2).joined(separator: " ") } == [
                "config.yaml:1: listen:", "config.yaml:2: january.api_key_file:", "config.yaml:2: january.budget_seconds:",
                "config.yaml:5: sessions.verifiers[0].algorithms:", "config.yaml:6: featurs:", "environment: LOG_LEVEL:",
            ])
        #expect(lines[4] == "config.yaml:6: featurs: unknown key; did you mean \"features\"?")
    }

    @Test func itemsOfListsHaveLinesOfTheirOwn() throws {
        let path = try file(
            Self.good.replacing("features: [food_search]", with: "features:\n  - food_search\n  - nonsense\n")
                + "paths:\n  token:\n    - /a\n    - b\n")
        let run = Run(["check", "--config", path])
        let places = run.errors.split(separator: "\n").filter { !$0.hasPrefix("warning:") }.map {
            $0.replacing(path, with: "config.yaml").split(separator: " ").prefix(2).joined(separator: " ")
        }
        #expect(places == ["config.yaml:7: features[1]:", "config.yaml:12: paths.token[1]:"], "\(run.errors)")
    }

    @Test func aUnixSocketBelongsToTheFolderOfTheConfiguration() throws {
        let path = try file(Self.good + "listen: \"unix:rel.sock?mode=0600\"\nstate: \"sqlite:kept/state.db\"\n")
        let run = Run(["config", "--config", path])
        let folder = String(path.prefix(upTo: try #require(path.lastIndex(of: "/"))))
        #expect(run.output.contains("listen: \"unix:\(folder)/rel.sock?mode=0600\""), "\(run.output)")
        #expect(run.output.contains("state: \"sqlite:\(folder)/kept/state.db\""), "\(run.output)")
    }

    @Test(arguments: ["0.0.0.0:8788", "[::]:8788", "127.0.0.1:8788"])
    func theManagementListenerIsNotWhereAppsAre(listen: String) throws {
        let run = Run(["check", "--config", try file(Self.good + "listen: \"\(listen)\"\n")])
        #expect(run.code == .configuration)
        #expect(run.errors.contains("management.listen: must not be the public address"), "\(run.errors)")
    }

    @Test func warningsAreSaidAndAreNoProblem() throws {
        let path = try file(Self.good)
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: secrets.path + "january_api_key")
        let run = Run(["check", "--config", path])
        #expect(run.code == .ok)
        #expect(run.output == "ok\n")
        #expect(run.errors.hasPrefix("warning: \(path):1: january.api_key_file: "))
        #expect(run.errors.split(separator: "\n").count == 1)
    }

    /// Days until the certificate expires, and what is said of it.
    @Test(arguments: [(-1, "has expired 1 day ago: clients refuse to connect"), (3, "expires in "), (20, "")])
    func aCertificateThatEndsSoonIsAWarning(days: Int, text: String) throws {
        let identity = try TestCertificates.shared.get().issue("DNS:localhost", days: days)
        let folder = secrets.path
        for (name, bytes) in [("cert.pem", identity.certificate), ("key.pem", identity.privateKey)] {
            let isMade = FileManager.default.createFile(
                atPath: folder + name, contents: Data(bytes), attributes: [.posixPermissions: 0o600])
            #expect(isMade)
        }
        let path = try file(Self.good + "tls: { certificate_file: \(folder)cert.pem, private_key_file: \(folder)key.pem }\n")
        let run = Run(["check", "--config", path])
        #expect(run.code == .ok, "\(run.errors)")
        #expect(run.errors.contains("tls.certificate_file: \(text)") == !text.isEmpty, "\(run.errors)")
    }

    @Test(arguments: [
        ("drain: { delay_seconds: 5, timeout_seconds: 12.9 }", "drain.timeout_seconds: is less than"),
        ("drain: { delay_seconds: 5, timeout_seconds: 13 }", ""),
        ("listen: systemd\ndrain: { delay_seconds: 5, timeout_seconds: 8 }", ""),
        ("listen: systemd\ndrain: { delay_seconds: 5, timeout_seconds: 7 }", "together (8.0): mints that come in the delay"),
    ])
    func aDrainThatIsShorterThanAMintIsAWarning(keys: String, text: String) throws {
        let run = Run(["check", "--config", try file(Self.good + keys + "\n")])
        #expect(run.code == .ok, "\(run.errors)")
        #expect(run.errors.contains("drain") == !text.isEmpty && (text.isEmpty || run.errors.contains(text)), "\(run.errors)")
    }

    @Test func aPolicyTestThatFailsIsAProblem() throws {
        let path = try file(
            Self.good + """
                policy_tests:
                  - { name: "everything", claims: { iss: "https://i.example", sub: u }, expect: { scopes: ["glucose:read"] } }

                """)
        let run = Run(["check", "--config", path])
        #expect(run.code == .configuration)
        #expect(run.errors.hasPrefix("\(path):7: policy_tests[0]: everything: expected scopes"))
    }

    /// What no session can come to is no expectation.
    @Test(arguments: [
        (
            "iss: \"https://i.exmaple\", sub: u", "refused: true",
            "policy_tests[0].claims: t: no verifier accepts the iss \"https://i.exmaple\"; did you mean \"https://i.example\"?"
        ),
        (
            "iss: 7, sub: u", "refused: true",
            "policy_tests[0].claims: t: no verifier accepts the iss \"7\"; configured are \"https://i.example\""
        ),
        (
            "iss: \"https://i.example\", sub: \"a@b.example\"", "scopes: [\"foods:read\"]",
            "policy_tests[0]: t: expected scopes [foods:read], got [] (invalid_end_user_id)"
        ),
    ])
    func aPolicyTestOfWhoCannotSignInIsAProblem(claims: String, expect: String, problem: String) throws {
        let path = try file(
            Self.good + "policy_tests:\n  - { name: t, claims: { \(claims) }, expect: { \(expect) } }\n")
        let run = Run(["check", "--config", path])
        #expect(run.code == .configuration)
        #expect(run.errors == "\(path):7: \(problem)\n")
    }

    @Test(arguments: ["iss: \"https://i.example\", plan: pro", "sub: u", "plan: pro"])
    func aPolicyTestMayLeaveOutWhoItIs(claims: String) throws {
        let path = try file(
            Self.good + "policy_tests:\n  - { name: t, claims: { \(claims) }, expect: { scopes: [\"foods:read\"] } }\n")
        let run = Run(["check", "--config", path])
        #expect(run.errors == "")
        #expect(run.code == .ok)
    }

    @Test(arguments: ["serve", "check", "config", "explain", "healthcheck"])
    func everyCommandRefusesABadConfiguration(name: String) {
        let run = Run([name, "--config", "/nonexistent/config.yaml"])
        #expect(run.code == .configuration)
        #expect(run.errors == "/nonexistent/config.yaml: cannot read the file: No such file or directory\n")
        #expect(run.output == "")
    }

    @Test func configLoadsAgainAndMeansTheSame() throws {
        let path = try file(
            Self.good + """
                grants:
                  - { when: { any: [{ claim: plan, in: [pro, "1", 1, true, null] }, { not: { claim: /a/b, exists: false } }] }, features: [coach], ttl_seconds: 300 }
                feature_scopes: { coach: ["foods:read", "glucose:read"] }
                trusted_proxies: [10.0.0.0/8, "::1"]

                """)
        let first = Run(["config", "--config", path])
        #expect(first.code == .ok)
        #expect(first.errors == "")
        #expect(first.lines.allSatisfy { $0.wholeMatch(of: /.*  # (file:[0-9]+|environment|default)/) != nil })
        #expect(first.lines.contains("features: [food_search]  # file:5"))
        #expect(first.lines.contains("  level: info  # default"))
        let again = try secrets.write("again.yaml", first.output)
        #expect(Run(["check", "--config", again]).errors == "")
        let second = Run(["config", "--config", again])
        func values(_ run: Run) -> [String] {
            run.lines.map { String($0.prefix(upTo: $0.range(of: "  # ", options: .backwards)?.lowerBound ?? $0.endIndex)) }
                .map { $0.trimmingCharacters(in: ["-", " "]) }.sorted()
        }
        #expect(values(second) == values(first))
    }

    @Test func configFromTheEnvironmentLoadsAgainInTheSameEnvironment() throws {
        let first = Run(["config"], environment: Self.environment)
        #expect(first.code == .ok)
        #expect(first.output.contains("# environment"))
        #expect(!first.output.contains(SecretsFolder.apiKey) && !first.output.contains(SecretsFolder.sessionSecret))
        let again = try secrets.write("again.yaml", first.output)
        let second = Run(["check", "--config", again], environment: Self.environment)
        #expect(second.errors == "")
        #expect(second.code == .ok)
    }

    /// Markers in every place where a secret or something like one can stand by mistake.
    @Test func noCommandShowsASecret() throws {
        let marker = "MARKER7f3a"
        let files = [
            "january: { api_key: sk-\(marker), api_key_file: sk-\(marker), base_url: \"https://user:\(marker)@h.example/?k=\(marker)\" }\n",
            "january: { api_key_file: \(try secrets.write("bad_key", "ct-\(marker)")) }\nsessions: { verifiers: [{ type: jwt, jwks_url: \"https://u:\(marker)@h.example/\" }] }\n",
            "sessions: { verifiers: [{ type: jwt, hmac_secret: \(marker), hmac_secret_file: \(try secrets.write("short", marker)), algorithms: [HS256] }] }\n",
            "management: { token: \(marker), token_files: [\(try secrets.write("token", marker))] }\nstate: \"redis://:\(marker)@h.example/0\"\n",
            "end_user_id: { transform: hmac, secret: \(marker), secret_file: \(try secrets.write("id", marker)) }\nlog: { hash_secret: \(marker) }\n",
        ]
        for (index, text) in files.enumerated() {
            let path = try secrets.write("\(index).yaml", text)
            for command in ["serve", "check", "config", "explain", "healthcheck"] {
                let run = Run(
                    [command, "--config", path], environment: ["REDIS_URL": "redis://:\(marker)@h.example/1"], input: marker)
                #expect(run.code == .configuration)
                #expect(!(run.output + run.errors).contains(marker), "\(command): \(run.errors)")
            }
        }
        let environment = ["JANUARY_API_KEY": "ct-\(marker)", "SESSION_HMAC_SECRET": marker, "MANAGEMENT_TOKEN": marker]
        let run = Run(["check"], environment: environment)
        #expect(run.code == .configuration)
        #expect(!run.errors.contains(marker))
    }

    @Test(arguments: [
        ("127.0.0.1:1", ["127.0.0.1:1"]), ("0.0.0.0:8788", ["127.0.0.1:8788"]), ("[::]:8788", ["[::1]:8788", "127.0.0.1:8788"]),
        ("[::1]:8788", ["[::1]:8788"]), ("192.0.2.1:8788", ["192.0.2.1:8788"]), ("unix:/run/m.sock", ["unix:/run/m.sock"]),
    ])
    func healthcheckAsksLoopbackForAWildcard(listen: String, asked: [String]) throws {
        let address = try #require(SocketAddress(listen))
        #expect(RunningServer.addresses(for: address).map(\.description) == asked)
    }

    @Test func healthcheckHasNobodyToAskWithoutManagement() throws {
        let path = try file(Self.good + "management: { listen: \"off\" }\n")
        let run = Run(["healthcheck", "--config", path])
        #expect(run.code == .failed)
        #expect(
            run.errors
                == "management.listen is off, so there is nobody to ask; GET /healthz on the public listener says whether the server is up\n"
        )
    }
}

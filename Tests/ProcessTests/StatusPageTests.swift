import Foundation
import Glibc
import JanuarySimulator
import TestSupport
import Testing

/// `/status` in a real Chromium, in front of the real server.
@Suite(.serialized, .enabled(if: Chromium.isInstalled, "chromium is not installed"))
struct StatusPageTests {
    private static let withState: @Sendable (inout String) -> Void = { text in
        text = text.replacing(
            "rate_limits: { per_address: false, per_session: false,",
            with: "rate_limits: { per_address: false, per_session: { requests: 6, per_seconds: 60, burst: 4 },")
        text += "state: \"sqlite:state/state.db\"\n"
    }

    private static func url(_ scenario: ServerScenario) -> String { "http://127.0.0.1:\(scenario.managementPort)/status" }

    /// What `/status.json` says now.
    private static func status(_ scenario: ServerScenario) throws -> [String: Any] {
        let answer = try scenario.get("/status.json")
        let body = answer.range(of: "\r\n\r\n").map { answer[$0.upperBound...] } ?? ""
        return try #require(try JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any])
    }

    /// Cells of one of the page's tables, by row.
    private static func table(_ name: String, _ chromium: Chromium) throws -> [[String]] {
        let rows = try chromium.value(
            "[...document.querySelectorAll('[data-table=\(name)] tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        return rows as? [[String]] ?? []
    }

    private static func answers(_ status: [String: Any]) -> [[String: Any]] { status["answers"] as? [[String: Any]] ?? [] }

    /// Mints, refusals and failures, so that there is something in every part.
    private static func work(_ scenario: ServerScenario) throws {
        for number in 0..<5 { _ = try scenario.exchange(ServerScenario.mint(try scenario.session("user-\(number)"))) }
        for _ in 0..<3 { _ = try scenario.exchange(ServerScenario.mint("e30.e30.e30")) }
        let one = try scenario.session("greedy")
        for _ in 0..<6 { _ = try scenario.exchange(ServerScenario.mint(one)) }
        scenario.simulator.addFault(FaultRule(.refused(500, "internal"), on: .mint, times: 2))
        for number in 0..<2 { _ = try scenario.exchange(ServerScenario.mint(try scenario.session("late-\(number)"))) }
    }

    @Test func whatThePageShowsIsWhatStatusJSONSays() async throws {
        try await ServerScenario.run(Self.withState) { scenario in
            try scenario.becomesReady()
            let chromium = try Chromium()
            try chromium.open(Self.url(scenario))
            try chromium.eventually("not ready") { try chromium.text("#status") == "ready" }
            try Self.work(scenario)
            let status = try Self.status(scenario)
            let answers = Self.answers(status)
            #expect(answers.contains { $0["status"] as? Int == 201 && $0["total"] as? Int == 9 }, "\(answers)")
            var expected: [String: String] = [:]
            for answer in answers where answer["code"] as? String != "ok" {
                expected["\(answer["status"] ?? "") \(answer["code"] ?? "")"] = "\(answer["total"] ?? "")"
            }
            #expect(
                expected == ["401 invalid_session": "3", "429 rate_limited": "2", "503 january_unavailable": "2"])
            func shown() throws -> [String: String] {
                try Dictionary(uniqueKeysWithValues: Self.table("codes", chromium).map { ($0[0], $0[2]) })
            }
            try chromium.eventually("other numbers") { try shown() == expected }
            // All of it happened while the page was looking.
            #expect(try Self.table("codes", chromium).allSatisfy { $0[1] == $0[2] })
            #expect(
                try Set(Self.table("answers", chromium).map { $0.joined(separator: "|") })
                    == ["mint 201 ok|9|9", "mint 500 other|2|2"])
            let sets = try Self.table("keys", chromium)
            #expect(sets.count == 1 && sets[0][0] == "jwt" && sets[0][1] == "1")
            #expect(
                sets[0][2].hasSuffix(" s") && sets[0][3].hasSuffix(" ago") && ["1 d", "23 h 59 min"].contains(sets[0][4]),
                "\(sets)")
            let limits = try Self.table("limits", chromium)
            #expect(limits.count == 1 && limits[0][0] == "per_session: 6 in 1 min, burst 4")
            #expect(limits[0][1...2] == ["2", "2"] && limits[0][3].hasSuffix(" ago"))
            let verdicts = try Self.table("sessions", chromium)
            #expect(verdicts.contains(["jwt: accepted", "13", "13"]), "\(verdicts)")
            #expect(verdicts.contains { $0[0].contains("refused") && $0[2] == "3" }, "\(verdicts)")
            // A curve, and the same as text and as a table.
            let chart = try chromium.value("document.querySelector('[data-chart=took] [role=img]').ariaLabel") as? String ?? ""
            #expect(
                chart.hasPrefix("How long a mint takes, last 5 minutes: median now ") && !chart.contains("nothing"), "\(chart)")
            try chromium.value("document.querySelector('[data-chart=mints] summary').click()")
            try chromium.eventually("no table") {
                try chromium.value(
                    "[...document.querySelectorAll('[data-chart=mints] td')].some(c => parseFloat(c.textContent) > 0)") as? Bool
                    == true
            }
            let tiles = try chromium.text("#tiles")
            let fingerprint = ((status["january"] as? [String: Any])?["api_key"] as? [String: Any])?["fingerprint"] as? String
            #expect(tiles.contains("first\(try #require(fingerprint))"), "\(tiles)")
            #expect(tiles.contains("connections0of 10,000") && tiles.contains("pending revocations0none waits"), "\(tiles)")
            #expect(try chromium.text("#problems").contains("failed in the last minute: january_unavailable 2."))
            #expect(
                try chromium.value("document.title") as? String
                    == "✖ ready – 127.0.0.1:\(scenario.managementPort) – January Token Endpoint")
            try Self.isQuietAndAlone(chromium, scenario)
        }
    }

    /// Nothing on the console, nothing against the policy, no request but to the process itself.
    private static func isQuietAndAlone(_ chromium: Chromium, _ scenario: ServerScenario) throws {
        #expect(chromium.complaints == [])
        let origin = "http://127.0.0.1:\(scenario.managementPort)/"
        let requests = Set(chromium.requests.filter { !$0.hasPrefix("data:") })
        #expect(requests == [origin + "status", origin + "status.json"])
    }

    @Test func itFitsAPhoneAndADeskAndIsReadByScreenReadersAndKeyboards() async throws {
        try await ServerScenario.run(Self.withState) { scenario in
            try scenario.becomesReady()
            try Self.work(scenario)
            let chromium = try Chromium()
            try chromium.show(width: 1280, height: 900, dark: false)
            let blank = try chromium.screenshot().count
            try chromium.open(Self.url(scenario))
            try chromium.eventually("no second answer") {
                try chromium.value("document.querySelectorAll('[data-chart=load] .s').length") as? Int ?? 0 > 2
            }
            var pictures: Set<[UInt8]> = []
            for (width, height) in [(1280, 900), (390, 844)] {
                for dark in [false, true] {
                    try chromium.show(width: width, height: height, dark: dark)
                    let picture = try chromium.screenshot()
                    // The header of a PNG: width and height as 32 bits each.
                    #expect(picture.prefix(8) == [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A])
                    let sizes = [picture[16..<20], picture[20..<24]].map { $0.reduce(0) { $0 << 8 | Int($1) } }
                    #expect(sizes == [width, height])
                    #expect(picture.count > 4 * blank, "\(picture.count) bytes, a blank one has \(blank)")
                    pictures.insert(picture)
                    let overflow = try chromium.value(
                        "document.documentElement.scrollWidth - document.documentElement.clientWidth")
                    #expect(overflow as? Int == 0, "\(width)")
                    let contrast = try chromium.value(Self.lowContrast) as? [String]
                    #expect(contrast == [], "\(width) \(dark)")
                }
            }
            #expect(pictures.count == 4)

            let tree = try chromium.accessibilityTree()
            for role in ["banner", "main", "contentinfo", "form", "combobox", "button", "table", "figure", "meter", "link"] {
                #expect(tree.contains { $0.role == role }, "no \(role)")
            }
            let needName: Set<String> = [
                "region", "form", "button", "link", "combobox", "image", "img", "figure", "Figure", "table", "meter", "heading",
                "columnheader", "DisclosureTriangle",
            ]
            for node in tree where needName.contains(node.role) { #expect(!node.name.isEmpty, "\(node.role) without a name") }
            #expect(tree.count { $0.role == "region" } == 14 && tree.count { $0.role == "heading" } == 15)

            try Self.everythingIsReachedByTab(chromium)
            try Self.isQuietAndAlone(chromium, scenario)
        }
    }

    /// Texts whose colour differs too little from what is behind them: less than 4.5 to 1 (WCAG 2.2, 1.4.3).
    private static let lowContrast = """
        (() => {
          const channels = c => (c.match(/[\\d.]+/g) || []).map(Number);
          const light = c => channels(c).slice(0, 3).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
          const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (channels(c)[3] !== 0) return c; } return 'rgb(255,255,255)'; };
          const found = new Set();
          for (const e of document.querySelectorAll('body *')) {
            if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility()) continue;
            if (e instanceof HTMLScriptElement || e instanceof HTMLStyleElement || e.localName === 'noscript') continue;
            const style = getComputedStyle(e), color = e instanceof SVGElement ? style.fill : style.color;
            const [a, b] = [light(color), light(behind(e))].sort((x, y) => y - x);
            if ((a + .05) / (b + .05) < 4.5) found.add(`${e.localName} ${e.textContent} ${color} ${behind(e)}`);
          }
          return [...found];
        })()
        """

    private static func everythingIsReachedByTab(_ chromium: Chromium) throws {
        let interactive = "a[href], button, select, summary, input, [tabindex=\"0\"]"
        let all = try chromium.value(
            "[...document.querySelectorAll('\(interactive)')].filter(e => e.checkVisibility()).map(e => e.dataset.order = '').length"
        )
        let count = try #require(all as? Int)
        #expect(count == 12)
        try chromium.value("document.activeElement.blur()")
        var reached: [String] = []
        for _ in 0..<count {
            try chromium.press("Tab", code: 9)
            reached.append(
                try chromium.value(
                    """
                    (() => { const e = document.activeElement; const seen = 'order' in e.dataset; delete e.dataset.order;
                    const style = getComputedStyle(e); return seen && style.outlineStyle !== 'none' ? e.localName : 'no: ' + e.outerHTML; })()
                    """) as? String ?? "")
        }
        #expect(reached.first == "a" && !reached.contains { $0.hasPrefix("no") }, "\(reached)")
        // Each by its own key: the skip link, a table, the button.
        try chromium.value("document.querySelector('.skip').focus()")
        try chromium.press("Enter", code: 13, text: "\r")
        #expect(try chromium.value("document.activeElement.id") as? String == "main")
        try chromium.value("document.querySelector('#pause').focus()")
        try chromium.press(" ", code: 32, text: " ")
        #expect(try chromium.value("document.querySelector('#pause').ariaPressed") as? String == "true")
        #expect(try chromium.text("#link").hasPrefix("paused"))
        #expect(try chromium.value("document.body.className") as? String == "stale")
        try chromium.press(" ", code: 32, text: " ")
        try chromium.eventually("not live again") { try chromium.text("#link").hasPrefix("live") }
    }

    @Test func aProcessThatIsGoneIsSaidAndOneThatIsBackIsFollowed() async throws {
        try await ServerScenario.run(Self.withState) { scenario in
            try scenario.becomesReady()
            let chromium = try Chromium()
            try chromium.open(Self.url(scenario))
            try chromium.eventually("not ready") { try chromium.text("#status") == "ready" }
            #expect(try chromium.value("document.querySelector('#alarm').hidden") as? Bool == true)
            _ = try scenario.exchange(ServerScenario.mint("e30.e30.e30"))
            try chromium.eventually("not counted") { try Self.table("codes", chromium) == [["401 invalid_session", "1", "1"]] }
            let began = try #require(try Self.status(scenario)["started_at"] as? String)
            scenario.server.send(SIGTERM)
            #expect(try scenario.server.wait() == 0)
            try chromium.eventually("not said") { try chromium.text("#status") == "no answer" }
            #expect(try chromium.value("document.body.className") as? String == "stale")
            #expect(try chromium.value("document.querySelector('#alarm').hidden") as? Bool == false)
            let alarm = try chromium.text("#alarm")
            #expect(alarm.hasPrefix("The process cannot be reached. What is shown is of ") && alarm.hasSuffix(" and not live."))
            #expect(try chromium.text("#link").hasPrefix("last answer "))
            #expect(try chromium.text("#news").hasPrefix("no answer"))

            // Another process at the same places, whose counters begin at nothing.
            try scenario.write(
                "config.yaml",
                try String(contentsOfFile: scenario.folder + "config.yaml", encoding: .utf8)
                    .replacing(
                        "listen: \"127.0.0.1:0\"\nmanagement: { listen: \"127.0.0.1:0\" }",
                        with: """
                            listen: "127.0.0.1:\(scenario.port)"
                            management: { listen: "127.0.0.1:\(scenario.managementPort)" }
                            """))
            let next = try Child(["serve", "--config", scenario.folder + "config.yaml"])
            _ = try next.logLine("listening")
            try chromium.eventually("not ready again") { try chromium.text("#status") == "ready" }
            #expect(try chromium.value("document.body.className") as? String == "")
            #expect(try chromium.value("document.querySelector('#alarm').hidden") as? Bool == true)
            try chromium.eventually("not said") {
                try chromium.text("#problems").contains("The process restarted before ")
            }
            #expect(try Self.status(scenario)["started_at"] as? String != began)
            for _ in 0..<2 { _ = try scenario.exchange(ServerScenario.mint("e30.e30.e30")) }
            // What happened to the first one is still in the charts' time.
            try chromium.eventually("other numbers") { try Self.table("codes", chromium) == [["401 invalid_session", "3", "2"]] }
        }
    }

    @Test func aDrainIsSaid() async throws {
        let slow: @Sendable (inout String) -> Void = { $0 = $0.replacing("delay_seconds: 0", with: "delay_seconds: 15") }
        try await ServerScenario.run(slow) { scenario in
            try scenario.becomesReady()
            let chromium = try Chromium()
            try chromium.open(Self.url(scenario))
            try chromium.eventually("not ready") { try chromium.text("#status") == "ready" }
            scenario.server.send(SIGTERM)
            try chromium.eventually("not said") { try chromium.text("#status") == "draining" }
            #expect(try chromium.text("#problems").contains("Draining: the process ends in "))
        }
    }

    /// Nothing of an answer is trusted: not its types, not its numbers, not its names, not its size.
    @Test func hostileAnswersAreShownAsTextOrNotAtAll() async throws {
        try await ServerScenario.run { scenario in
            let chromium = try Chromium()
            try chromium.intercept("*/status.json")
            let number = try Self.hostileBodies().enumerated().map { ($0, $1) }
            for (index, body) in number {
                chromium.answer = { _ in body }
                try chromium.open(Self.url(scenario) + "?\(index)")
                // Two answers, so that there are differences, too.
                for _ in 0..<2 {
                    try chromium.eventually("no answer: \(body.prefix(80))") { try chromium.text("#link").hasPrefix("live, ") }
                    let before = chromium.requests.count
                    try chromium.value("document.dispatchEvent(new Event('visibilitychange'))")
                    try chromium.eventually("not asked") { try chromium.value("1") != nil && chromium.requests.count > before }
                }
                try chromium.eventually("no answer: \(body.prefix(80))") { try chromium.text("#link").hasPrefix("live, ") }
                #expect(try chromium.value("document.scripts.length") as? Int == 1)
                #expect(
                    try chromium.value("document.images.length + document.querySelectorAll('bdo, iframe').length") as? Int == 0)
                #expect(try chromium.value("window.owned === undefined") as? Bool == true)
                for width in [1280, 390] {
                    try chromium.show(width: width, height: 800, dark: true)
                    let over = try chromium.value("document.documentElement.scrollWidth - innerWidth")
                    #expect(over as? Int == 0, "\(width): \(body.prefix(300))")
                }
                let panels = try chromium.text("#panels")
                #expect(!panels.contains("NaN") && !panels.contains("undefined"))
                for name in ["codes", "answers", "sessions", "keys", "limits"] {
                    #expect(try Self.table(name, chromium).count <= 20)
                }
                if index == 0 {
                    let keys = try chromium.text("[data-table=keys]")
                    #expect(keys.contains("<script>owned = 1</script>") && keys.contains("… and 9,980 more, see status.json."))
                    #expect(
                        try chromium.text("#problems").contains(
                            "Key set <script>owned = 1</script> cannot be loaded since 3 min."))
                    #expect(try chromium.text("[data-table=codes]").contains("__proto__"))
                    #expect(try chromium.text("[data-table=sessions]").contains("<img src=x onerror='owned = 1'>"))
                }
            }
            #expect(chromium.complaints == [])
            for body in ["", "[]", "null", "\"ready\"", "<html>", "{\"status\":"] {
                chromium.answer = { _ in body }
                try chromium.open(Self.url(scenario) + "?none")
                try chromium.eventually("not said: \(body)") { try chromium.text("#status") == "no answer" }
            }
            #expect(chromium.complaints == [])
            // Before the state is open.
            chromium.answerStatus = 503
            try chromium.open(Self.url(scenario) + "?starting")
            try chromium.eventually("not said") { try chromium.text("#status") == "starting" }
            #expect(try chromium.text("#alarm") == "The process starts: its state is not open yet.")
        }
    }

    private static func hostileBodies() throws -> [String] {
        let names = [
            "<script>owned = 1</script>", "__proto__", "constructor", "\u{202E}desrever", String(repeating: "w", count: 5_000),
        ]
        let sets = (0..<10_000).map { number -> [String: Any] in
            [
                "name": number < names.count ? names[number] : "set-\(number)", "keys": 1, "age_seconds": 5,
                "last_used_seconds": NSNull(),
                "failing_seconds": number == 0 ? 180 as Any : NSNull(), "usable_seconds": -5,
            ]
        }
        let rows = names.map { ["method": "POST", "status": 503, "code": $0, "total": 7] as [String: Any] }
        let first: [String: Any] = [
            "status": "<b>ready</b>", "key_sets": sets, "answers": rows,
            "sessions": [["verifier": "<img src=x onerror='owned = 1'>", "verdict": "refused", "reason": names[3], "total": 1]],
            "limits": [
                "rules": [["limit": names[4], "requests": 1e308, "per_seconds": -1, "burst": 0.5, "refused_total": 1e300]]
            ],
            "january": [
                "api_key": ["slot": names[0], "fingerprint": names[4]], "held_back_for": ["key", names[0]],
                "answers": [["operation": names[0], "status": 201, "code": names[1], "total": 1]],
            ], "started_at": names[4],
        ]
        let wrong: [Any] = [NSNull(), "text", -1, 1e308, true, [], [NSNull(), 3, "x"], [:] as [String: Any]]
        let members = [
            "status", "reasons", "version", "started_at", "uptime_seconds", "drain_ends_in_seconds", "loops", "answers",
            "connections", "mints",
            "january", "sessions", "key_sets", "limits", "state", "reloads",
        ]
        var bodies = [first]
        for value in wrong { bodies.append(Dictionary(uniqueKeysWithValues: members.map { ($0, value) })) }
        // One level below.
        for value in wrong {
            let histogram: [String: Any] = ["up_to": value, "counts": value]
            bodies.append([
                "status": "ready", "mints": ["in_flight": value, "most": value, "seconds": histogram],
                "january": [
                    "seconds": ["up_to": [0.1, 1], "counts": value], "answers": [value], "held_back_for": value, "api_key": value,
                ],
                "answers": [["method": value, "status": value, "code": value, "total": value]],
                "key_sets": [value, ["age_seconds": value]],
                "limits": ["rules": [value, ["last_refused": value]], "degraded": value, "cells": value],
                "state": ["revocations_pending": value],
                "connections": ["open": value, "most": value],
            ])
        }
        return try bodies.map { String(decoding: try JSONSerialization.data(withJSONObject: $0), as: UTF8.self) }
    }

    /// Off loopback a browser sends the management token as the password of HTTP Basic; one that is not good any more ends the asking.
    @Test func aTokenInTheBrowserOpensItOffLoopback() async throws {
        let token = "management-token-of-the-page-0123456789"
        let open: @Sendable (inout String) -> Void = { text in
            text = text.replacing(
                #"management: { listen: "127.0.0.1:0" }"#, with: #"management: { listen: "0.0.0.0:0", token_files: [token] }"#)
            text += "state: \"sqlite:state/state.db\"\n"
        }
        try await ServerScenario.run(open, files: ["token": token]) { scenario in
            try scenario.becomesReady()
            #expect(try scenario.get("/status").hasPrefix("HTTP/1.1 401 "))
            let chromium = try Chromium()
            try chromium.open("http://operator:\(token)@127.0.0.1:\(scenario.managementPort)/status")
            try chromium.eventually("not ready") { try chromium.text("#status") == "ready" }
            #expect(chromium.complaints == [])
            try scenario.write("token", "another-" + token)
            try chromium.eventually("not said") {
                try chromium.text("#alarm").contains("The management token is not accepted (401).")
            }
            let asked = chromium.requests.count
            try chromium.runAhead(milliseconds: 60_000)
            #expect(chromium.requests.count == asked)
        }
    }

    /// At a bounded pace, never in a tab that nobody sees, slower while nobody answers.
    @Test func itAsksAtABoundedPaceAndNotInAHiddenTab() async throws {
        try await ServerScenario.run { scenario in
            let chromium = try Chromium()
            try chromium.intercept("*/status.json")
            chromium.answer = { _ in #"{"status":"ready"}"# }
            try chromium.open(Self.url(scenario))
            try chromium.eventually("not ready") { try chromium.text("#status") == "ready" }
            func asked(in milliseconds: Int) throws -> Int {
                let before = chromium.requests.count
                try chromium.runAhead(milliseconds: milliseconds)
                return chromium.requests.count - before
            }
            #expect((20...31).contains(try asked(in: 60_000)))
            try chromium.value(
                "Object.defineProperty(document, 'hidden', { get: () => window.isHidden, configurable: true }); window.isHidden = true"
            )
            try chromium.value("document.dispatchEvent(new Event('visibilitychange'))")
            _ = try asked(in: 2_500)
            #expect(try asked(in: 600_000) == 0)
            try chromium.value("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
            #expect(try asked(in: 3_000) >= 1)
            try chromium.eventually("not live") { try chromium.text("#link").hasPrefix("live") }
            chromium.answer = { _ in nil }
            #expect((5...12).contains(try asked(in: 60_000)))
            #expect(try chromium.text("#status") == "no answer")
        }
    }

    private static let pictures = ProcessInfo.processInfo.environment["STATUS_PICTURES"]

    /// The pictures of `docs`, anew: `scripts/status-pictures`. A quarter of an hour of somebody's bad night, by the clock of the page.
    @Test(.enabled(if: pictures != nil, "STATUS_PICTURES names no folder"))
    func thePicturesOfTheDocumentation() async throws {
        let folder = Self.pictures ?? ""
        try await ServerScenario.run { scenario in
            for (name, width, height, dark) in [("status-desk", 1280, 690, false), ("status-phone", 390, 844, true)] {
                let chromium = try Chromium()
                try chromium.intercept("*/status.json")
                var night = BadNight()
                chromium.answer = { _ in night.next() }
                try chromium.show(width: width, height: height, dark: dark, scale: 0.75)
                try chromium.open(Self.url(scenario) + "?" + name)
                try chromium.eventually("not ready") { try chromium.text("#status") == "ready" }
                try chromium.value("document.querySelector('#host').textContent = 'endpoint-1.acme.example'")
                try chromium.runAhead(milliseconds: 295_000)
                try Data(chromium.screenshot()).write(to: URL(filePath: "\(folder)/\(name).png"))
            }
        }
    }
}

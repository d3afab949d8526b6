import Foundation
import Glibc
import TestSupport

/// A real Chromium without a window and one page in it, spoken to in the DevTools protocol over two pipes: JSON messages, each ended by a NUL
/// (https://chromedevtools.github.io/devtools-protocol). For one test thread.
final class Chromium {
    static let program = "/usr/bin/chromium"
    static let isInstalled = FileManager.default.isExecutableFile(atPath: program)

    typealias Object = [String: Any]
    private let process: Child
    private let folder: String
    private let input: Int32
    private let output: Int32
    private var lastID = 0
    private var page: String?
    private var received: [UInt8] = []
    /// Everything the page has said unasked, oldest first.
    private(set) var events: [(method: String, parameters: Object)] = []
    /// Answers a request of the page's that ``intercept(_:)`` stops: a body, or nothing and the connection fails.
    var answer: (String) -> String? = { _ in nil }
    var answerStatus = 200

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "january-chromium-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let commands = try Self.pipe()
        let answers = try Self.pipe()
        process = try Child(
            [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
                "--user-data-dir=\(folder)", "--no-first-run", "--disable-background-networking", "--disable-component-update",
                "--disable-sync", "--hide-scrollbars", "--disable-lcd-text", "--lang=en-US", "about:blank",
            ], environment: ["HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": folder], program: Self.program,
            inherited: [commands.read, answers.write])
        close(commands.read)
        close(answers.write)
        input = commands.write
        output = answers.read
        let target = try call("Target.createTarget", ["url": "about:blank"])["targetId"] ?? ""
        page = try call("Target.attachToTarget", ["targetId": target, "flatten": true])["sessionId"] as? String
        for domain in ["Page", "Runtime", "Log", "Network", "Audits", "Accessibility", "DOM"] { try call("\(domain).enable") }
    }

    deinit {
        close(input)
        close(output)
        process.send(SIGKILL)
        _ = try? process.wait()
        // Its helpers may still be writing.
        for _ in 0..<50 where FileManager.default.fileExists(atPath: folder) {
            try? FileManager.default.removeItem(atPath: folder)
            usleepMilliseconds(20)
        }
    }

    /// Far from 3 and 4, which are the child's.
    private static func pipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        guard Glibc.pipe(&ends) == 0 else { throw Child.Failure(what: "pipe: \(errno)") }
        let moved = ends.map { fcntl($0, F_DUPFD_CLOEXEC, 16) }
        for end in ends { close(end) }
        guard moved.allSatisfy({ $0 >= 0 }) else { throw Child.Failure(what: "fcntl: \(errno)") }
        return (moved[0], moved[1])
    }

    // MARK: Messages

    @discardableResult
    func call(_ method: String, _ parameters: Object = [:]) throws -> Object {
        let id = try send(method, parameters)
        while true {
            let message = try next()
            guard message["id"] as? Int == id else { continue }
            if let error = message["error"] as? Object { throw Child.Failure(what: "\(method): \(error)") }
            return message["result"] as? Object ?? [:]
        }
    }

    @discardableResult
    private func send(_ method: String, _ parameters: Object) throws -> Int {
        lastID += 1
        var message: Object = ["id": lastID, "method": method, "params": parameters]
        if let page { message["sessionId"] = page }
        var bytes = [UInt8](try JSONSerialization.data(withJSONObject: message)) + [0]
        while !bytes.isEmpty {
            let count = Glibc.write(input, bytes, bytes.count)
            guard count > 0 else { throw Child.Failure(what: "Chromium is gone: \(process.errors)") }
            bytes.removeFirst(count)
        }
        return lastID
    }

    /// The next message; events are kept, and stopped requests answered.
    private func next() throws -> Object {
        let end = ContinuousClock.now + .seconds(60)
        while true {
            if let zero = received.firstIndex(of: 0) {
                let message = try JSONSerialization.jsonObject(with: Data(received[..<zero])) as? Object ?? [:]
                received.removeFirst(zero + 1)
                if let method = message["method"] as? String { try note(method, message["params"] as? Object ?? [:]) }
                return message
            }
            var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
            guard ContinuousClock.now < end, poll(&entry, 1, 1_000) >= 0 else {
                throw Child.Failure(what: "Chromium says nothing: \(process.errors)")
            }
            guard entry.revents != 0 else { continue }
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            let count = read(output, &buffer, buffer.count)
            guard count > 0 else { throw Child.Failure(what: "Chromium is gone: \(process.errors)") }
            received += buffer[..<count]
        }
    }

    private func note(_ method: String, _ parameters: Object) throws {
        events.append((method, parameters))
        guard method == "Fetch.requestPaused", let id = parameters["requestId"] as? String else { return }
        let url = (parameters["request"] as? Object)?["url"] as? String ?? ""
        if let body = answer(url) {
            try send(
                "Fetch.fulfillRequest",
                [
                    "requestId": id, "responseCode": answerStatus, "body": Data(body.utf8).base64EncodedString(),
                    "responseHeaders": [["name": "Content-Type", "value": "application/json"]],
                ])
        } else {
            try send("Fetch.failRequest", ["requestId": id, "errorReason": "ConnectionRefused"])
        }
    }

    // MARK: The page

    func open(_ url: String) throws {
        let result = try call("Page.navigate", ["url": url])
        if let error = result["errorText"] { throw Child.Failure(what: "\(url): \(error)") }
    }

    /// Requests whose URL matches are given to ``answer`` instead of the network.
    func intercept(_ pattern: String) throws { try call("Fetch.enable", ["patterns": [["urlPattern": pattern]]]) }

    /// The value of an expression of JavaScript.
    @discardableResult
    func value(_ expression: String) throws -> Any? {
        let result = try call(
            "Runtime.evaluate", ["expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true])
        if let details = result["exceptionDetails"] { throw Child.Failure(what: "\(expression): \(details)") }
        return (result["result"] as? Object)?["value"]
    }

    func text(_ selector: String) throws -> String {
        try value("(document.querySelector(\(Self.quoted(selector))) || {}).textContent") as? String ?? ""
    }

    static func quoted(_ text: String) -> String {
        String(decoding: (try? JSONSerialization.data(withJSONObject: text, options: .fragmentsAllowed)) ?? Data(), as: UTF8.self)
    }

    /// Looks until it holds; every wait ends.
    func eventually(_ what: String, within seconds: Double = 40, _ condition: () throws -> Bool) throws {
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            if try condition() { return }
            usleepMilliseconds(50)
        }
        throw Child.Failure(what: "\(what): \(try value("document.body.innerText.slice(0, 3000)") ?? "") \(complaints)")
    }

    func show(width: Int, height: Int, dark: Bool, scale: Double = 1) throws {
        try call(
            "Emulation.setDeviceMetricsOverride",
            ["width": width, "height": height, "deviceScaleFactor": scale, "mobile": false])
        let scheme = ["name": "prefers-color-scheme", "value": dark ? "dark" : "light"]
        try call("Emulation.setEmulatedMedia", ["features": [scheme]])
    }

    /// A PNG of what is visible, or of the whole page.
    func screenshot(whole: Bool = false) throws -> [UInt8] {
        let result = try call("Page.captureScreenshot", ["format": "png", "captureBeyondViewport": whole])
        return [UInt8](Data(base64Encoded: result["data"] as? String ?? "") ?? Data())
    }

    /// Lets the page's clocks and timers run ahead, without waiting for them.
    func runAhead(milliseconds: Int) throws {
        let before = count(of: "Emulation.virtualTimeBudgetExpired")
        try call("Emulation.setVirtualTimePolicy", ["policy": "pauseIfNetworkFetchesPending", "budget": milliseconds])
        while count(of: "Emulation.virtualTimeBudgetExpired") == before { _ = try next() }
    }

    /// One press of a key, with what it does.
    func press(_ key: String, code: Int, text: String? = nil) throws {
        var down: Object = [
            "type": text == nil ? "rawKeyDown" : "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code,
        ]
        if let text { down["text"] = text }
        try call("Input.dispatchKeyEvent", down)
        try call("Input.dispatchKeyEvent", ["type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code])
    }

    // MARK: What was noticed

    func count(of method: String) -> Int { events.count { $0.method == method } }

    /// URLs that were asked for.
    var requests: [String] {
        events.compactMap { event in
            guard event.method == "Network.requestWillBeSent" else { return nil }
            return (event.parameters["request"] as? Object)?["url"] as? String
        }
    }

    /// Messages on the console, exceptions, violations of the policy and other issues.
    var complaints: [String] {
        events.compactMap { event in
            switch event.method {
            case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Audits.issueAdded":
                "\(event.method) \(event.parameters)"
            default: nil
            }
        }
    }

    /// Nodes that a screen reader is told of: role, name, and what is focused.
    func accessibilityTree() throws -> [(role: String, name: String)] {
        let nodes = try call("Accessibility.getFullAXTree")["nodes"] as? [Object] ?? []
        return nodes.filter { $0["ignored"] as? Bool != true }.map { node in
            func text(_ key: String) -> String { (node[key] as? Object)?["value"] as? String ?? "" }
            return (text("role"), text("name"))
        }
    }
}

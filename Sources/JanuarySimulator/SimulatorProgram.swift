import Dispatch
import EventLoop
import Glibc
import HTTPMessage
import Primitives
import StrictJSON
import TLS

/// What `january-simulator` does with its command line. Exit codes: 0; 64 wrong usage; 66 a file cannot be read; 69 it cannot listen, or
/// nobody answers; 73 the port file cannot be written.
package enum SimulatorProgram {
    private struct Failure: Error {
        let code: Int32
        let message: String
    }

    package static func run(_ arguments: [String]) -> Int32 {
        do {
            let command = try SimulatorCommand.parse(arguments)
            switch command.action {
            case .help: print(SimulatorCommand.usage, terminator: "")
            case .serve: try serve(command)
            case .printSession(let subject): try printSession(subject, command)
            }
            return 0
        } catch let error as SimulatorCommand.UsageError {
            complain("\(error.message); see january-simulator --help")
            return 64
        } catch let failure as Failure {
            complain(failure.message)
            return failure.code
        } catch {
            complain("\(error)")
            return 1
        }
    }

    private static func serve(_ command: SimulatorCommand) throws {
        ProcessSettings.ignoreBrokenPipes()
        _ = ProcessSettings.raiseOpenFileLimit()
        let ended = DispatchSemaphore(value: 0)
        let signals = SignalWatcher([SIGTERM, SIGINT]) { _ in ended.signal() }
        let configuration = try configuration(command)
        let simulator: Simulator
        do throws(SystemError) {
            simulator = try Simulator(configuration)
            try simulator.start()
        } catch {
            throw Failure(code: 69, message: "cannot listen on \(command.listen): \(error.text)")
        }
        if let file = command.portFile {
            guard Files.replace(file, with: Array("\(simulator.port)\n".utf8)) else {
                throw Failure(code: 73, message: "cannot write \(file)")
            }
        }
        print("january-simulator ready on \(simulator.origin), issuer \(simulator.read { $0.identity.issuer })")
        fflush(nil)
        ended.wait()
        withExtendedLifetime(signals) { simulator.stop() }
    }

    private static func configuration(_ command: SimulatorCommand) throws -> Simulator.Configuration {
        var configuration = Simulator.Configuration()
        configuration.address = command.listen
        configuration.settings.keys = [command.apiKey: .valid]
        configuration.issuer = command.issuer
        if let file = command.hmacSecretFile {
            var bytes = try read(file)
            if bytes.last == ASCII.lineFeed { bytes.removeLast() }
            configuration.sharedSecret = Secret(bytes)
        }
        if let certificateFile = command.certificateFile, let keyFile = command.keyFile {
            let certificates = try read(certificateFile)
            let key = Secret(try read(keyFile))
            do throws(TLSError) {
                configuration.tls = try TLSServerContext(certificates: certificates, privateKey: key)
            } catch {
                throw Failure(code: 66, message: "\(certificateFile), \(keyFile): \(error.reason)")
            }
        }
        return configuration
    }

    private static func read(_ file: String) throws(Failure) -> [UInt8] {
        guard let bytes = Files.read(file) else { throw Failure(code: 66, message: "cannot read \(file)") }
        return bytes
    }

    private static func printSession(_ subject: String, _ command: SimulatorCommand) throws {
        var order: JSONObject = ["sub": .string(subject), "aud": .array(command.audience.map(JSONValue.string))]
        if let issuer = command.issuer { order["iss"] = .string(issuer) }
        if let algorithm = command.algorithm { order["alg"] = .string(algorithm.rawValue) }
        var tls: TLSClientContext?
        if let file = command.authorityFile {
            let authority = try read(file)
            do throws(TLSError) {
                tls = try TLSClientContext(trust: .authorities(pem: authority))
            } catch {
                throw Failure(code: 66, message: "\(file): \(error.reason)")
            }
        }
        guard let answer = ControlClient.post("/control/session", order, to: command.listen, tls: tls) else {
            throw Failure(code: 69, message: "no simulator answers at \(command.listen)")
        }
        guard answer.status == 201, let token = answer.object["token"]?.string else {
            throw Failure(code: 1, message: answer.object["message"]?.string ?? "the simulator answered \(answer.status)")
        }
        print(token)
    }

    private static func complain(_ message: String) {
        // The global `stderr` is no variable Swift 6 lets through; this is the same stream by its number.
        guard let stream = fdopen(STDERR_FILENO, "w") else { return }
        fputs("january-simulator: \(message)\n", stream)
        fflush(stream)
    }
}

/// Small files, by the C library.
private enum Files {
    private static let maxBytes = 1_048_576

    static func read(_ path: String) -> [UInt8]? {
        guard let file = fopen(path, "re") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: maxBytes)
        let count = fread(&bytes, 1, maxBytes, file)
        return ferror(file) == 0 ? Array(bytes[..<count]) : nil
    }

    /// A reader sees the old file or the whole new one.
    static func replace(_ path: String, with bytes: [UInt8]) -> Bool {
        let temporary = path + ".new"
        guard let file = fopen(temporary, "we") else { return false }
        let written = fwrite(bytes, 1, bytes.count, file) == bytes.count
        guard fclose(file) == 0, written, rename(temporary, path) == 0 else {
            remove(temporary)
            return false
        }
        return true
    }
}

import Telemetry

/// The file of `audit.file` and the thread that writes to it.
struct AuditOutput: Sendable {
    enum Failure: Error {
        case cannotOpen(path: String, AuditFile.OpenError)
        case noThread
    }

    /// What a full disk refuses is tried again so often.
    private static let retryInterval = Duration.seconds(1)

    let writer: LogWriter
    private let file: AuditFile

    /// `nil`: records go where the log goes.
    init?(_ config: AuditConfig) throws(Failure) {
        guard let path = config.file else { return nil }
        do throws(AuditFile.OpenError) {
            file = try AuditFile(path: path)
        } catch {
            throw .cannotOpen(path: path, error)
        }
        var limits = LogWriter.Limits()
        limits.retryInterval = Self.retryInterval
        do throws(LogWriter.StartError) {
            writer = try LogWriter.start(sink: file, limits: limits, threadName: "audit")
        } catch {
            throw .noThread
        }
    }

    /// After the file was moved away.
    func reopen(_ log: Log) {
        do throws(AuditFile.OpenError) {
            try file.reopen()
        } catch {
            log.write(
                .error, "the audit file cannot be opened again; the old one stays in use", [LogField("error", error.text)])
        }
    }
}

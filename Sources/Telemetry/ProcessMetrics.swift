import Glibc
import Primitives

/// The standard `process_*` metrics, read from `/proc/self` when somebody looks.
package enum ProcessMetrics {
    package static func register(in metrics: Metrics) {
        gauge(metrics, .counter, "process_cpu_seconds_total", "User and system CPU time in seconds.") {
            ProcessStat.read().map { $0.cpuTicks / ticksPerSecond }
        }
        gauge(metrics, .gauge, "process_resident_memory_bytes", "Resident memory in bytes.") {
            ProcessStat.read().map { $0.residentPages * Double(sysconf(Int32(_SC_PAGESIZE))) }
        }
        gauge(metrics, .gauge, "process_virtual_memory_bytes", "Virtual memory in bytes.") {
            ProcessStat.read()?.virtualBytes
        }
        gauge(metrics, .gauge, "process_threads", "Threads.") { ProcessStat.read()?.threads }
        gauge(metrics, .gauge, "process_start_time_seconds", "Start of the process in seconds since 1970-01-01T00:00:00Z.") {
            guard let stat = ProcessStat.read(), let boot = bootTime() else { return nil }
            return boot + stat.startTicks / ticksPerSecond
        }
        gauge(metrics, .gauge, "process_open_fds", "Open file descriptors.", read: openDescriptors)
        gauge(metrics, .gauge, "process_max_fds", "File descriptors that may be open.") {
            var limit = rlimit()
            guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return nil }
            return Double(limit.rlim_cur)
        }
    }

    private static let ticksPerSecond = Double(max(1, sysconf(Int32(_SC_CLK_TCK))))

    private static func gauge(
        _ metrics: Metrics, _ kind: Family.Kind, _ name: String, _ help: StaticString, read: @escaping @Sendable () -> Double?
    ) {
        metrics.callback(name, kind, help, []) { read().map { [(labels: [], value: $0)] } ?? [] }
    }

    /// The line `btime N` of `/proc/stat`.
    private static func bootTime() -> Double? {
        guard let bytes = ProcFile.read("/proc/stat", maxBytes: 1 << 20) else { return nil }
        for line in bytes.split(separator: ASCII.lineFeed) where line.starts(with: "btime ".utf8) {
            return ASCII.decimal(line.dropFirst(6)).map(Double.init)
        }
        return nil
    }

    private static func openDescriptors() -> Double? {
        guard let directory = opendir("/proc/self/fd") else { return nil }
        defer { closedir(directory) }
        var count = 0
        while let entry = readdir(directory) {
            // `.` and `..` are no descriptors.
            if entry.pointee.d_name.0 != CChar(bitPattern: UInt8(ascii: ".")) { count += 1 }
        }
        // One of them is the directory that is being read.
        return Double(count - 1)
    }
}

/// Fields of `/proc/PID/stat` (proc(5)).
struct ProcessStat: Equatable {
    /// User and system time (fields 14 and 15).
    let cpuTicks: Double
    let threads: Double
    /// Since boot.
    let startTicks: Double
    let virtualBytes: Double
    let residentPages: Double

    static func read() -> Self? { ProcFile.read("/proc/self/stat", maxBytes: 4096).flatMap(parse) }

    /// The second field is the program's name in parentheses and may itself hold spaces and parentheses: counting begins behind the
    /// last one.
    static func parse(_ bytes: [UInt8]) -> Self? {
        guard let end = bytes.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = bytes[(end + 1)...].split { $0 == ASCII.space || $0 == ASCII.lineFeed }
        func field(_ number: Int) -> Double? {
            number - 3 < fields.count ? ASCII.decimal(fields[number - 3]).map(Double.init) : nil
        }
        guard let user = field(14), let system = field(15), let threads = field(20), let start = field(22),
            let virtual = field(23), let resident = field(24)
        else { return nil }
        return Self(
            cpuTicks: user + system, threads: threads, startTicks: start, virtualBytes: virtual, residentPages: resident)
    }
}

/// Files below `/proc`: never on a disk, so reading one does not wait.
private enum ProcFile {
    static func read(_ path: String, maxBytes: Int) -> [UInt8]? {
        guard let file = fopen(path, "re") else { return nil }
        defer { fclose(file) }
        return [UInt8](unsafeUninitializedCapacity: maxBytes) { buffer, count in
            count = fread(buffer.baseAddress, 1, buffer.count, file)
        }
    }
}

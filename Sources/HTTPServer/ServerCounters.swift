import Synchronization

/// Numbers of one server over all its loops, read by metrics from any thread. Relaxed: each is right by itself.
package final class ServerCounters: Sendable {
    package struct Counter: ~Copyable, Sendable {
        private let value = Atomic<Int>(0)
        package func add(_ count: Int) { value.add(count, ordering: .relaxed) }
        package func load() -> Int { value.load(ordering: .relaxed) }
    }

    package let open = Counter()
    package let accepted = Counter()
    /// All connections were being served and one more came.
    package let refusedForMaxConnections = Counter()
    /// The address of the new one had as many as it may.
    package let refusedForAddress = Counter()
    /// Descriptors or memory ran out; accepting paused.
    package let refusedForDescriptors = Counter()
    /// Closed while waiting, in favour of a new connection.
    package let closedForRoom = Counter()

    /// Closed by ``ServerConfig/idleTimeout`` although the peer is one of ``ServerConfig/proxies``, which should have closed them before.
    package let idleProxies = Counter()

    /// Closed because the TLS handshake failed, or was not over in time.
    package let failedHandshakes = Counter()
    package let lateHandshakes = Counter()

    /// Without a complete head right now, or behind their last response, over all loops: those that can be closed for a new one.
    package let waiting = Counter()

    package init() {}
}

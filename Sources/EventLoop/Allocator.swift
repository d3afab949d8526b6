import CSystem
import Glibc

/// glibc's allocator in this process: how many arenas, and what is given back to the system.
package enum Allocator {
    /// Before the first thread is made. Variables of glibc's own (`MALLOC_…`, `GLIBC_TUNABLES`) win: whoever set them had a reason.
    ///
    /// - Parameter arenas: one for each thread that allocates all the time, so that they do not wait for each other. glibc's own bound is
    ///   eight per processor of the machine, which a container's share of it says nothing about.
    package static func configure(arenas: Int) {
        let isSet = ["MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"].contains {
            (name: String) in
            getenv(name) != nil
        }
        if !isSet { january_configure_allocator(Int32(clamping: max(1, arenas))) }
    }

    /// Bytes that are free in the heap, whether or not the system has their pages.
    package static var freeBytes: Int { Int(clamping: january_free_heap_bytes()) }

    /// Gives the pages of all free blocks back. Holds each arena's lock meanwhile, about 10 ms for 50 MB in small pieces.
    package static func giveBack() { january_give_heap_back() }
}

// What `import Glibc` does not show: header-only wrappers, so that nothing has to be compiled or linked.
// No feature macro here: it would change structures that the C library's own module shows to Swift.
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

// `struct epoll_event` is packed and its data a union: the token is passed and read as one 64-bit number.
static inline int january_epoll_control(int epoll, int operation, int fd, uint32_t events, uint64_t token) {
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = events;
    event.data.u64 = token;
    return epoll_ctl(epoll, operation, fd, &event);
}

static inline uint64_t january_epoll_token(const struct epoll_event *event) { return event->data.u64; }
static inline uint32_t january_epoll_events(const struct epoll_event *event) { return event->events; }

// EPOLLET and EPOLLEXCLUSIVE do not import: they are unsigned bits above what Swift takes for an enum case.
static const uint32_t january_epoll_in = EPOLLIN;
static const uint32_t january_epoll_out = EPOLLOUT;
static const uint32_t january_epoll_read_hangup = EPOLLRDHUP;
static const uint32_t january_epoll_hangup = EPOLLHUP;
static const uint32_t january_epoll_error = EPOLLERR;
static const uint32_t january_epoll_edge = EPOLLET;
static const uint32_t january_epoll_exclusive = EPOLLEXCLUSIVE;

// Declared only with a feature macro.
extern int accept4(int, struct sockaddr *, socklen_t *, int);

static inline int january_accept(int listener, struct sockaddr *address, socklen_t *length) {
    return accept4(listener, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static inline int january_open_readonly(const char *path) { return open(path, O_RDONLY | O_CLOEXEC); }

static inline int january_bytes_readable(int fd, int *count) { return ioctl(fd, FIONREAD, count); }

// Declared only with a feature macro. Processors that this process may run on; 0 when the kernel does not say.
extern int sched_getaffinity(int, size_t, void *);

static inline int january_processor_count(void) {
    unsigned char set[1024];
    memset(set, 0, sizeof set);
    if (sched_getaffinity(0, sizeof set, set) != 0) return 0;
    int count = 0;
    for (size_t index = 0; index < sizeof set; index++) count += __builtin_popcount(set[index]);
    return count;
}

// mallopt(3). A threshold that is set stays: left alone, glibc raises both with every large block that is freed, up to 32 and 64 MiB.
static inline void january_configure_allocator(int arenas) {
    mallopt(M_ARENA_MAX, arenas);
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

static inline size_t january_free_heap_bytes(void) { return mallinfo2().fordblks; }

static inline void january_give_heap_back(void) { malloc_trim(0); }

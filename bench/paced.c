// Requests at a fixed rate, each with the time at which it was to be sent: latency counts from there, so a server that stalls is charged
// for every request that had to wait for it (coordinated omission corrected). One thread, one epoll set, one request at a time on each
// connection.
//
//   paced PORT RATE SECONDS CONNECTIONS METHOD PATH [TOKENS] [fresh]
//
// TOKENS: a file with one bearer token a line, sent in turn; `-`: none. `fresh`: a new connection for each request (Connection: close).
// PACED_FORWARDED in the environment: each request for another client address, as a proxy would say.
// RATE 0: as fast as the connections allow. Prints one line of JSON. Times in microseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { INPUT_BYTES = 16384, MAX_CONNECTIONS = 16384, GRACE_SECONDS = 12 };

struct connection {
    int fd;
    int busy, connecting;
    double intended;
    size_t used, sent, length;
    const char *request;
    char input[INPUT_BYTES];
};

static struct sockaddr_in server;
static struct connection *connections;
static int set, fresh, statuses[1000];
static long failed, finished;
static double *latencies;
// Of the same index: the status that came after so long.
static short *status_of;
static size_t capacity;
static char **requests;
static size_t request_count, next_request;
static int *idle, idle_count;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void make_requests(const char *method, const char *path, const char *tokens) {
    FILE *file = tokens && strcmp(tokens, "-") ? fopen(tokens, "r") : NULL;
    char *line = NULL;
    size_t room = 0, have = 0;
    char forwarded[64] = "";
    do {
        if (getenv("PACED_FORWARDED"))
            snprintf(forwarded, sizeof forwarded, "X-Forwarded-For: 203.0.%zu.%zu\r\n", request_count / 256 % 256, request_count % 256);
        ssize_t count = file ? getline(&line, &room, file) : 0;
        if (file && count <= 0) break;
        while (count > 0 && line[count - 1] == '\n') line[--count] = 0;
        if (request_count == have) requests = realloc(requests, (have = have ? have * 2 : 64) * sizeof *requests);
        if (asprintf(&requests[request_count++], "%s %s HTTP/1.1\r\nHost: x\r\n%s%s%s%s%s%s\r\n", method, path, forwarded,
                     file ? "Authorization: Bearer " : "", file ? line : "", file ? "\r\n" : "",
                     strcmp(method, "POST") ? "" : "Content-Length: 0\r\n", fresh ? "Connection: close\r\n" : "") < 0) abort();
    } while (file);
    free(line);
    if (file) fclose(file);
}

static void watch(struct connection *one, uint32_t events, int operation) {
    struct epoll_event event = {.events = events, .data.ptr = one};
    epoll_ctl(set, operation, one->fd, &event);
}

static int dial(struct connection *one) {
    int on = 1;
    one->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (one->fd < 0) return 0;
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    one->used = 0;
    one->connecting = 1;
    if (connect(one->fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) {
        close(one->fd);
        one->fd = -1;
        return 0;
    }
    watch(one, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
    return 1;
}

static void hang_up(struct connection *one) {
    if (one->fd >= 0) close(one->fd);
    one->fd = -1;
}

static void done(struct connection *one, int status) {
    if (!status) {
        failed++;
    } else {
        statuses[status % 1000]++;
        if ((size_t)finished == capacity) {
            latencies = realloc(latencies, (capacity = capacity ? capacity * 2 : 65536) * sizeof(double));
            status_of = realloc(status_of, capacity * sizeof(short));
        }
        status_of[finished] = (short)(status % 1000);
        latencies[finished++] = (now() - one->intended) * 1e6;
    }
    one->busy = 0;
    idle[idle_count++] = (int)(one - connections);
    if (!status || fresh) hang_up(one);
}

static void push(struct connection *one) {
    while (one->sent < one->length) {
        ssize_t count = send(one->fd, one->request + one->sent, one->length - one->sent, MSG_NOSIGNAL);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count <= 0) return done(one, 0);
        one->sent += count;
    }
    watch(one, EPOLLIN, EPOLL_CTL_MOD);
}

static void begin(struct connection *one, double intended) {
    one->busy = 1;
    one->intended = intended;
    one->request = requests[next_request++ % request_count];
    one->length = strlen(one->request);
    one->sent = 0;
    if (one->fd < 0) {
        if (!dial(one)) done(one, 0);
    } else {
        push(one);
    }
}

static void take(struct connection *one) {
    ssize_t count = recv(one->fd, one->input + one->used, INPUT_BYTES - 1 - one->used, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
        if (one->busy) return done(one, 0);
        return hang_up(one);
    }
    one->used += count;
    one->input[one->used] = 0;
    char *end = memmem(one->input, one->used, "\r\n\r\n", 4);
    if (!end) return;
    char *length = strcasestr(one->input, "\r\ncontent-length:");
    size_t whole = end + 4 - one->input + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
    if (one->used < whole) return;
    int closes = strcasestr(one->input, "\r\nconnection: close") != NULL;
    int status = atoi(one->input + 9);
    one->used = 0;
    if (one->busy) done(one, status);
    if (closes) hang_up(one);
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double percentile(const double *sorted, long count, double share) {
    if (!count) return 0;
    long index = (long)(share * count);
    return sorted[index >= count ? count - 1 : index];
}

static void print_statuses(void) {
    double *some = malloc((finished + 1) * sizeof *some);
    const char *comma = "";
    printf(",\"by_status\":{");
    for (int status = 1; status < 1000; status++) {
        if (!statuses[status]) continue;
        long count = 0;
        for (long index = 0; index < finished; index++)
            if (status_of[index] == status) some[count++] = latencies[index];
        qsort(some, count, sizeof *some, compare);
        printf("%s\"%d\":{\"count\":%ld,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}", comma, status, count,
               percentile(some, count, .5), percentile(some, count, .99), percentile(some, count, .999), some[count - 1]);
        comma = ",";
    }
    printf("}");
    free(some);
}

int main(int argc, char **argv) {
    if (argc < 7) return fprintf(stderr, "usage: paced PORT RATE SECONDS CONNECTIONS METHOD PATH [TOKENS] [fresh]\n"), 64;
    signal(SIGPIPE, SIG_IGN);
    double rate = atof(argv[2]), seconds = atof(argv[3]);
    int count = atoi(argv[4]);
    fresh = argc > 8 && !strcmp(argv[8], "fresh");
    if (count < 1 || count > MAX_CONNECTIONS) return 64;
    server.sin_family = AF_INET;
    server.sin_port = htons(atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    make_requests(argv[5], argv[6], argc > 7 ? argv[7] : NULL);
    set = epoll_create1(0);
    connections = calloc(count, sizeof *connections);
    idle = calloc(count, sizeof *idle);
    for (int index = count; index > 0; index--) {
        connections[index - 1].fd = -1;
        idle[idle_count++] = index - 1;
        if (!fresh) dial(&connections[index - 1]);
    }
    struct epoll_event events[256];
    double start = now(), end = start + seconds, last = end + GRACE_SECONDS;
    long sent = 0;
    for (;;) {
        double time = now();
        long due = rate > 0 ? (time < end ? (long)((time - start) * rate) + 1 : (long)(seconds * rate)) : time < end ? sent + idle_count : sent;
        while (sent < due && idle_count > 0) {
            struct connection *one = &connections[idle[--idle_count]];
            begin(one, rate > 0 ? start + sent / rate : time);
            sent++;
        }
        if (time >= end && (idle_count == count || time >= last) && (sent >= due || time >= last)) break;
        // The time until the next one is due, at most a millisecond: epoll_wait counts in those.
        struct timespec wait = {.tv_nsec = 1000000};
        if (rate > 0 && idle_count > 0 && time < end) {
            double until = start + sent / rate - time;
            wait.tv_nsec = until <= 0 ? 0 : until >= 0.001 ? 1000000 : (long)(until * 1e9);
        }
        int ready = epoll_pwait2(set, events, 256, &wait, NULL);
        for (int index = 0; index < ready; index++) {
            struct connection *one = events[index].data.ptr;
            if (one->fd < 0) continue;
            if (one->connecting && (events[index].events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
                int error = 0;
                socklen_t size = sizeof error;
                getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &size);
                one->connecting = 0;
                if (error) {
                    if (one->busy) done(one, 0);
                    hang_up(one);
                    continue;
                }
                watch(one, EPOLLIN, EPOLL_CTL_MOD);
                if (one->busy) push(one);
                continue;
            }
            if (one->busy && one->sent < one->length && (events[index].events & EPOLLOUT)) push(one);
            if (one->fd >= 0 && (events[index].events & (EPOLLIN | EPOLLERR | EPOLLHUP))) take(one);
        }
    }
    long unanswered = count - idle_count;
    double took = now() - start;
    // Before the latencies are sorted: afterwards nobody knows whose they are.
    printf("{\"connections\":%d", count);
    print_statuses();
    if (finished) qsort(latencies, finished, sizeof(double), compare);
    printf(",\"sent\":%ld,\"answered\":%ld,\"failed\":%ld,\"seconds\":%.3f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f,\"statuses\":{",
           sent, finished, failed + unanswered, took < seconds ? took : seconds, percentile(latencies, finished, .5), percentile(latencies, finished, .9), percentile(latencies, finished, .99), percentile(latencies, finished, .999),
           finished ? latencies[finished - 1] : 0);
    const char *comma = "";
    for (int status = 1; status < 1000; status++)
        if (statuses[status]) printf("%s\"%d\":%d", comma, status, statuses[status]), comma = ",";
    printf("}}\n");
    return 0;
}

// January's side of the benchmark: answers every request at once with a valid 201 of the mint call, for the end user, the scopes and
// the lifetime named in the body. One thread, one epoll set, keep-alive, pipelining. Not a server for anything else: it trusts its
// peers, looks for members by name, and takes Content-Length bodies only.
//
//   stub PORT [CERTIFICATE KEY]      listens on 127.0.0.1:PORT (0: any), with TLS where it has both, prints the port, runs until killed
//
// STUB_DELAY_MS in the environment: every answer comes so much later, however many are asked for at once. SIGUSR1: an outage begins, every
// answer is a 503 at once; SIGUSR2: it is over. SIGHUP: the delay is read anew from the file STUB_DELAY_FILE.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { INPUT_BYTES = 32768, OUTPUT_BYTES = 65536, MAX_CONNECTIONS = 65536 };

struct connection {
    SSL *tls;
    unsigned long number;
    size_t used;
    char input[INPUT_BYTES];
};

static struct connection *connections[MAX_CONNECTIONS];

// The text of a member's value, up to (and with) its closing character; the length is 0 when there is none.
static const char *member(const char *body, size_t count, const char *name, char close, size_t *length) {
    const char *found = memmem(body, count, name, strlen(name));
    *length = 0;
    if (!found) return NULL;
    const char *value = found + strlen(name), *end = body + count;
    while (value < end && (*value == ':' || *value == ' ')) value++;
    const char *stop = value < end ? memchr(value + 1, close, end - value - 1) : NULL;
    if (!stop) return NULL;
    *length = stop - value + 1;
    return value;
}

// `2026-11-30T00:00:00.000Z`, made once a second.
static const char *expiry(long lifetime) {
    static char text[40];
    static time_t made;
    static long made_for;
    time_t now = time(NULL);
    if (now != made || lifetime != made_for) {
        time_t end = now + lifetime;
        struct tm parts;
        gmtime_r(&end, &parts);
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000Z", &parts);
        made = now;
        made_for = lifetime;
    }
    return text;
}

// Answers that wait for their time, in its order.
struct later {
    double due;
    int fd;
    unsigned long number;
    size_t count;
    char bytes[1024];
};
static struct later *waiting;
static size_t first, waiting_count, room;
static double delay;
static volatile sig_atomic_t is_out, delay_changed;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void read_delay(void) {
    const char *text = getenv("STUB_DELAY_MS"), *file = getenv("STUB_DELAY_FILE");
    char buffer[64] = "";
    FILE *input = file ? fopen(file, "r") : NULL;
    if (input && fgets(buffer, sizeof buffer, input)) text = buffer;
    if (input) fclose(input);
    delay = text ? atof(text) / 1000 : 0;
}

static void outage(int number) { is_out = number == SIGUSR1; }
static void changed(int number) { delay_changed = number; }

static void answer_later(int fd, const char *bytes, size_t count) {
    if (count > sizeof waiting->bytes) abort();
    if (waiting_count == room) {
        size_t more = room ? room * 2 : 1024;
        struct later *larger = malloc(more * sizeof *larger);
        for (size_t index = 0; index < waiting_count; index++) larger[index] = waiting[(first + index) % room];
        free(waiting);
        waiting = larger, room = more, first = 0;
    }
    struct later *one = &waiting[(first + waiting_count++) % room];
    // A delay that has become shorter overtakes nobody.
    double due = now() + delay, last = waiting_count > 1 ? waiting[(first + waiting_count - 2) % room].due : 0;
    one->due = due > last ? due : last;
    one->fd = fd, one->number = connections[fd]->number, one->count = count;
    memcpy(one->bytes, bytes, count);
}

static size_t answer(char *output, size_t room, const char *body, size_t count) {
    static unsigned long serial;
    if (is_out) {
        const char *text = "{\"code\":\"service_unavailable\",\"message\":\"outage\"}";
        return snprintf(output, room, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                        strlen(text), text);
    }
    size_t user_length, scopes_length;
    const char *user = member(body, count, "\"end_user_id\"", '"', &user_length);
    const char *scopes = member(body, count, "\"scopes\"", ']', &scopes_length);
    const char *lifetime = memmem(body, count, "\"ttl_seconds\":", 14);
    long seconds = lifetime ? strtol(lifetime + 14, NULL, 10) : 1800;
    if (!user) user = "\"nobody\"", user_length = 8;
    if (!scopes) scopes = "[\"foods:read\"]", scopes_length = 14;
    char content[8192];
    int content_length = snprintf(
        content, sizeof content,
        "{\"token\":\"ct-BENCHbenchBENCHbenchBENCHbe%016lx\",\"expires_in\":%ld,\"expires_at\":\"%s\",\"end_user_id\":%.*s,\"scopes\":%.*s}",
        ++serial, seconds, expiry(seconds), (int)user_length, user, (int)scopes_length, scopes);
    if (content_length >= (int)sizeof content) abort();
    return snprintf(
        output, room,
        "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nX-Request-Id: bench-%016lx\r\nContent-Length: %d\r\n\r\n%s",
        serial, content_length, content);
}

// Bytes of the first whole request in the input, 0 when it is not whole; the body is the end of it.
static size_t request(const char *input, size_t used, size_t *body_length) {
    const char *end = memmem(input, used, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = end - input + 4;
    *body_length = 0;
    for (const char *line = input; line < end;) {
        const char *next = memmem(line, end + 2 - line, "\r\n", 2) + 2;
        if (strncasecmp(line, "content-length:", 15) == 0) *body_length = strtoul(line + 15, NULL, 10);
        line = next;
    }
    return used >= head + *body_length ? head + *body_length : 0;
}

static SSL_CTX *context;

// As read(2) and write(2): what TLS cannot give yet is EAGAIN. Answers are small, so a write never has to wait for a read.
static ssize_t take(struct connection *one, int fd, char *bytes, size_t count) {
    if (!one->tls) return read(fd, bytes, count);
    ERR_clear_error();
    int got = SSL_read(one->tls, bytes, (int)count);
    if (got > 0) return got;
    int reason = SSL_get_error(one->tls, got);
    if (reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE) return 0;
    errno = EAGAIN;
    return -1;
}

static ssize_t give(struct connection *one, int fd, const char *bytes, size_t count) {
    return one->tls ? SSL_write(one->tls, bytes, (int)count) : write(fd, bytes, count);
}

static void drop(int fd) {
    if (connections[fd]->tls) SSL_free(connections[fd]->tls);
    free(connections[fd]);
    connections[fd] = NULL;
    close(fd);
}

static void serve(int fd) {
    static char output[OUTPUT_BYTES];
    struct connection *connection = connections[fd];
    ssize_t count = take(connection, fd, connection->input + connection->used, INPUT_BYTES - connection->used);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return drop(fd);
    connection->used += count;
    size_t start = 0, made = 0, length, body;
    while ((length = request(connection->input + start, connection->used - start, &body)) > 0) {
        start += length;
        if (delay > 0 && !is_out) {
            answer_later(fd, output, answer(output, OUTPUT_BYTES, connection->input + start - body, body));
            continue;
        }
        made += answer(output + made, OUTPUT_BYTES - made, connection->input + start - body, body);
        if (made > OUTPUT_BYTES - 10240) break;
    }
    memmove(connection->input, connection->input + start, connection->used - start);
    connection->used -= start;
    // Answers are small and their readers keep up: a short write is a fault of the benchmark.
    if (connection->used == INPUT_BYTES || (made > 0 && give(connection, fd, output, made) != (ssize_t)made)) drop(fd);
}

// Gives what is due and returns the milliseconds until the next one, -1: there is none.
static int give_due(void) {
    while (waiting_count > 0) {
        struct later *one = &waiting[first];
        double left = one->due - now();
        if (left > 0) return (int)(left * 1000) + 1;
        struct connection *connection = connections[one->fd];
        if (connection && connection->number == one->number && give(connection, one->fd, one->bytes, one->count) != (ssize_t)one->count)
            drop(one->fd);
        first = (first + 1) % room;
        waiting_count--;
    }
    return -1;
}

int main(int argc, char **argv) {
    static unsigned long numbers;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), set = epoll_create1(0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1024)) return perror("listen"), 1;
    getsockname(listener, (struct sockaddr *)&address, &length);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, outage);
    signal(SIGUSR2, outage);
    signal(SIGHUP, changed);
    read_delay();
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    if (argc > 3) {
        context = SSL_CTX_new(TLS_server_method());
        if (SSL_CTX_use_certificate_chain_file(context, argv[2]) != 1 || SSL_CTX_use_PrivateKey_file(context, argv[3], SSL_FILETYPE_PEM) != 1)
            return fprintf(stderr, "cannot use the certificate\n"), 1;
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[256];
    epoll_ctl(set, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int count = epoll_wait(set, events, 256, give_due());
        if (delay_changed) delay_changed = 0, read_delay();
        for (int index = 0; index < count; index++) {
            int fd = events[index].data.fd;
            if (fd != listener) {
                serve(fd);
                continue;
            }
            while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                if (fd >= MAX_CONNECTIONS || !(connections[fd] = malloc(sizeof(struct connection)))) {
                    close(fd);
                    continue;
                }
                connections[fd]->used = 0;
                connections[fd]->number = ++numbers;
                connections[fd]->tls = context ? SSL_new(context) : NULL;
                if (context) {
                    SSL_set_fd(connections[fd]->tls, fd);
                    SSL_set_accept_state(connections[fd]->tls);
                }
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                event.events = EPOLLIN;
                event.data.fd = fd;
                epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
            }
        }
    }
}

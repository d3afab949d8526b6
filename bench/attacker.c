// Clients that do harm, each in one way, and what became of them: how many were cut, when, and with which status.
//
//   attacker PORT MODE COUNT SECONDS [RATE]
//
// Opens COUNT connections, RATE a second (0: as fast as the loop turns), and keeps on until all are cut or SECONDS are over.
//
//   silent        connects and says nothing
//   slow-head     one byte of a request line a second
//   slow-fields   one field line a second
//   full-head     the largest head that is accepted, but for its end, then nothing
//   slow-body     one byte of content a second
//   stalled-body  half of the content, then nothing
//   slow-reader   asks five thousand times a second and reads nothing
//   idle          one request, its answer, then nothing
//   vanish        as idle, but gone without a word: no FIN, no RST (needs CAP_NET_ADMIN; else as idle)
//   tls-hello     half of a TLS ClientHello
//   flood         connects and closes at once, again and again, until SECONDS are over
//
// Prints one line of JSON. Times are seconds from the moment the connection was open.
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

enum mode { SILENT, SLOW_HEAD, SLOW_FIELDS, FULL_HEAD, SLOW_BODY, STALLED_BODY, SLOW_READER, IDLE, VANISH, TLS_HELLO, FLOOD, MODES };
static const char *names[MODES] = {"silent", "slow-head", "slow-fields", "full-head", "slow-body", "stalled-body",
                                   "slow-reader", "idle", "vanish", "tls-hello", "flood"};

struct client {
    int fd, state; // 0: connecting, 1: open, 2: cut
    double opened, next;
};

static enum mode mode;
static struct sockaddr_in server;
static int set;
static long refused, cut, vanished, statuses[1000];
static double *times;
static char head[32768];
static size_t head_length;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int dial(int receive_bytes) {
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (receive_bytes) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    if (connect(fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static void say(int fd, const char *text, size_t length) { (void)!send(fd, text, length, MSG_NOSIGNAL); }

static void begin(struct client *one) {
    static const char post[] = "POST /january/client-token HTTP/1.1\r\nHost: x\r\n", get[] = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    switch (mode) {
    case SLOW_HEAD: say(one->fd, "POST /", 6); break;
    case SLOW_FIELDS: say(one->fd, post, sizeof post - 1); break;
    case FULL_HEAD: say(one->fd, head, head_length); break;
    case SLOW_BODY:
        say(one->fd, post, sizeof post - 1);
        say(one->fd, "Content-Length: 60000\r\n\r\n", 25);
        break;
    case STALLED_BODY:
        say(one->fd, post, sizeof post - 1);
        say(one->fd, "Content-Length: 100\r\n\r\nhalf of it", 33);
        break;
    case IDLE:
    case VANISH: say(one->fd, get, sizeof get - 1); break;
    case TLS_HELLO: say(one->fd, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11); break;
    case SILENT: case SLOW_READER: case FLOOD: case MODES: break;
    }
}

// Once a second; five hundred requests ten times a second from a reader that reads nothing.
static void again(struct client *one) {
    static char many[14600];
    for (size_t at = strlen(many); mode == SLOW_READER && at + 40 < sizeof many;)
        at += sprintf(many + at, "GET /no HTTP/1.1\r\nHost: x\r\n\r\n");
    switch (mode) {
    case SLOW_HEAD: say(one->fd, "a", 1); break;
    case SLOW_FIELDS: say(one->fd, "A: b\r\n", 6); break;
    case SLOW_BODY: say(one->fd, "x", 1); break;
    case SLOW_READER: say(one->fd, many, strlen(many)); break;
    default: break;
    }
}

static void over(struct client *one, int status) {
    times[cut++] = now() - one->opened;
    if (status > 0 && status < 1000) statuses[status]++;
    close(one->fd);
    one->fd = -1;
    one->state = 2;
}

static void disappear(struct client *one) {
#ifdef TCP_REPAIR
    int on = 1;
    // A socket under repair is closed without telling the peer (tcp(7), used by checkpointing).
    if (!setsockopt(one->fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on)) {
        close(one->fd);
        one->fd = -1;
        one->state = 2;
        vanished++;
        return;
    }
#endif
    one->next = 1e18;
}

static void hear(struct client *one) {
    char text[4096];
    static char last[65536][4];
    if (mode == SLOW_READER) {
        // Nothing is read; an end shows as an error.
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) over(one, 0);
        return;
    }
    ssize_t count;
    while ((count = recv(one->fd, text, sizeof text - 1, 0)) > 0) {
        text[count] = 0;
        if (count > 12 && !strncmp(text, "HTTP/1.1 ", 9)) memcpy(last[one->fd & 65535], text + 9, 3);
        if (mode == VANISH) return disappear(one);
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    int status = atoi(last[one->fd & 65535]);
    memset(last[one->fd & 65535], 0, 4);
    over(one, status);
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static void flood(int count, double end) {
    long made = 0;
    while (now() < end) {
        int fds[256], open = 0;
        for (; open < 256 && open < count; open++)
            if ((fds[open] = dial(0)) < 0) { refused++; break; }
        struct linger linger = {1, 0};
        for (int index = 0; index < open; index++) {
            if (made++ % 2) setsockopt(fds[index], SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
            close(fds[index]);
        }
        usleep(1000);
    }
    printf("{\"mode\":\"flood\",\"opened\":%ld,\"refused\":%ld}\n", made, refused);
}

int main(int argc, char **argv) {
    if (argc < 5) return fprintf(stderr, "usage: attacker PORT MODE COUNT SECONDS [RATE]\n"), 64;
    signal(SIGPIPE, SIG_IGN);
    for (mode = 0; mode < MODES && strcmp(argv[2], names[mode]); mode++) {}
    int count = atoi(argv[3]);
    double start = now(), end = start + atof(argv[4]), rate = argc > 5 ? atof(argv[5]) : 0;
    if (mode == MODES || count < 1) return fprintf(stderr, "no such mode: %s\n", argv[2]), 64;
    server.sin_family = AF_INET;
    server.sin_port = htons(atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (mode == FLOOD) return flood(count, end), 0;
    head_length = sprintf(head, "POST /");
    while (head_length < 8100) head[head_length++] = 'a';
    head_length += sprintf(head + head_length, " HTTP/1.1\r\nHost: x\r\n");
    for (int line = 0; line < 90; line++) head_length += sprintf(head + head_length, "X-%02d: %0160d\r\n", line, line);
    set = epoll_create1(0);
    struct client *clients = calloc(count, sizeof *clients);
    times = calloc(count, sizeof *times);
    struct epoll_event events[512];
    int made = 0;
    double tick = start;
    while (now() < end && (made < count || cut + refused + vanished < count)) {
        int due = rate > 0 ? (int)((now() - start) * rate) : made + 64;
        for (; made < count && made < due; made++) {
            clients[made].fd = dial(mode == SLOW_READER ? 2048 : 0);
            if (clients[made].fd < 0) { refused++; clients[made].state = 2; continue; }
            struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = &clients[made]};
            epoll_ctl(set, EPOLL_CTL_ADD, clients[made].fd, &event);
        }
        int ready = epoll_wait(set, events, 512, made < count ? 0 : 10);
        double time = now();
        for (int index = 0; index < ready; index++) {
            struct client *one = events[index].data.ptr;
            if (one->state == 0) {
                int error = 0;
                socklen_t size = sizeof error;
                getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &size);
                if (error) { refused++; close(one->fd); one->fd = -1; one->state = 2; continue; }
                one->state = 1;
                one->opened = time;
                one->next = time;
                struct epoll_event event = {.events = mode == SLOW_READER ? EPOLLRDHUP : EPOLLIN, .data.ptr = one};
                epoll_ctl(set, EPOLL_CTL_MOD, one->fd, &event);
                begin(one);
            } else if (one->state == 1) {
                hear(one);
            }
        }
        if (time < tick) continue;
        tick = time + 0.05;
        for (int index = 0; index < made; index++) {
            struct client *one = &clients[index];
            if (one->state != 1 || time < one->next) continue;
            again(one);
            one->next += mode == SLOW_READER ? 0.1 : 1;
        }
    }
    qsort(times, cut, sizeof(double), compare);
    printf("{\"mode\":\"%s\",\"opened\":%ld,\"refused\":%ld,\"cut\":%ld,\"vanished\":%ld,\"open\":%ld,\"first\":%.2f,\"median\":%.2f,\"last\":%.2f,\"statuses\":{",
           names[mode], made - refused, refused, cut, vanished, made - refused - cut - vanished, cut ? times[0] : 0, cut ? times[cut / 2] : 0,
           cut ? times[cut - 1] : 0);
    const char *comma = "";
    for (int status = 1; status < 1000; status++)
        if (statuses[status]) printf("%s\"%d\":%ld", comma, status, statuses[status]), comma = ",";
    printf("}}\n");
    return 0;
}

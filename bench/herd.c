// A stampede: many apps, each with the SDKs' retry schedule, over few sockets.
//
//   herd PORT CLIENTS SOCKETS ARRIVAL SECONDS TOKENS [heedless]
//
// Each of CLIENTS begins at a random moment of the first ARRIVAL seconds and mints with a session of its own (TOKENS: one a line, used in
// turn). 201: it has what it wants. A broken connection, 408, 429 and every 5xx: it tries again, nine times in all, after 1, 2, 4, 8, 8, 8, 8
// and 8 seconds, each 20 % more or less, and not before the answer's Retry-After (heedless: whatever that says, as the published SDKs do).
// Any other status, or the ninth failure: it has failed. A client that finds no socket free waits for one.
//
// Runs until every client is done, SECONDS at most. Prints a line of JSON for every half second (what was begun and what it came to in it),
// and one with the sums.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { INPUT_BYTES = 4096, MAX_SOCKETS = 16384, ATTEMPTS = 9, SLOTS = 1 << 16, MAX_BUCKETS = 4096, MAX_SAMPLES = 1 << 22 };
static const double SLOT = 0.005, BUCKET = 0.5;

struct client {
    int next;
    unsigned char attempts;
};

struct socket_ {
    int fd, client, connecting, used_before;
    double began;
    size_t used, sent, length;
    const char *request;
    char input[INPUT_BYTES];
};

struct bucket {
    long begun, minted, refused, limited, failed, broken, gave_up, waiting;
};

static struct sockaddr_in server;
static struct client *clients;
static struct socket_ *sockets;
static struct bucket buckets[MAX_BUCKETS];
static int slots[SLOTS], set, heedless, idle[MAX_SOCKETS], idle_count;
static int *line, line_first, line_count, client_count;
static char **requests;
static size_t request_count;
static double start;
static long done_count, attempts_by_success[ATTEMPTS + 1], other_statuses[1000], retry_after_seen[61];
static float *refused_times, *served_times;
static long refused_count, served_count;
static uint64_t seed = 88172645463325252ULL;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double random_(void) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (seed >> 11) / 9007199254740992.0;
}

static struct bucket *bucket(double time) {
    long index = (long)((time - start) / BUCKET);
    return &buckets[index < 0 ? 0 : index >= MAX_BUCKETS ? MAX_BUCKETS - 1 : index];
}

static void make_requests(const char *tokens) {
    FILE *file = fopen(tokens, "r");
    char *text = NULL;
    size_t room = 0, have = 0;
    ssize_t count;
    if (!file) exit(66);
    while ((count = getline(&text, &room, file)) > 0) {
        if (text[count - 1] == '\n') text[--count] = 0;
        if (request_count == have) requests = realloc(requests, (have = have ? have * 2 : 1024) * sizeof *requests);
        if (asprintf(&requests[request_count++],
                     "POST /january/client-token HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n", text) < 0) abort();
    }
    free(text);
    fclose(file);
}

// A client's next attempt; the wheel goes around in more than five minutes, and nobody waits so long.
static void wake_at(int client, double time) {
    long slot = (long)((time - start) / SLOT);
    clients[client].next = slots[slot % SLOTS];
    slots[slot % SLOTS] = client;
}

static void watch(struct socket_ *one, uint32_t events, int operation) {
    struct epoll_event event = {.events = events, .data.ptr = one};
    epoll_ctl(set, operation, one->fd, &event);
}

static void hang_up(struct socket_ *one) {
    if (one->fd >= 0) close(one->fd);
    one->fd = -1;
    one->connecting = 0;
}

static void again(int client, double time, double retry_after) {
    int attempts = clients[client].attempts;
    if (attempts >= ATTEMPTS) {
        bucket(time)->gave_up++;
        done_count++;
        return;
    }
    double wait = attempts >= 4 ? 8 : 1 << (attempts - 1);
    wait *= 0.8 + 0.4 * random_();
    if (!heedless && retry_after > wait) wait = retry_after;
    wake_at(client, time + wait);
}

// The attempt of this socket is over. `status` 0: broken.
static void ended(struct socket_ *one, int status, double retry_after) {
    double time = now();
    struct bucket *here = bucket(time);
    int client = one->client;
    one->client = -1;
    idle[idle_count++] = (int)(one - sockets);
    if (status == 201) {
        here->minted++;
        attempts_by_success[clients[client].attempts]++;
        done_count++;
        if (served_count < MAX_SAMPLES) served_times[served_count++] = time - one->began;
        return;
    }
    other_statuses[status]++;
    if (status == 0) {
        here->broken++;
        hang_up(one);
    } else if (status == 429) {
        here->limited++;
    } else if (status == 503) {
        here->refused++;
    } else {
        here->failed++;
    }
    if (status == 503 || status == 429) {
        if (refused_count < MAX_SAMPLES) refused_times[refused_count++] = time - one->began;
        retry_after_seen[retry_after > 60 ? 60 : (int)retry_after]++;
    }
    if (status == 0 || status == 408 || status == 429 || status >= 500) return again(client, time, retry_after);
    here->gave_up++;
    done_count++;
}

static void push(struct socket_ *one) {
    while (one->sent < one->length) {
        ssize_t count = send(one->fd, one->request + one->sent, one->length - one->sent, MSG_NOSIGNAL);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return watch(one, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
        if (count <= 0) return ended(one, 0, 0);
        one->sent += count;
    }
}

static void dial(struct socket_ *one) {
    int on = 1;
    one->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (one->fd < 0) return ended(one, 0, 0);
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    one->used_before = 0;
    if (connect(one->fd, (struct sockaddr *)&server, sizeof server) && errno != EINPROGRESS) return ended(one, 0, 0);
    one->connecting = 1;
    watch(one, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
}

static void begin(int client, double time) {
    struct socket_ *one = &sockets[idle[--idle_count]];
    bucket(time)->begun++;
    clients[client].attempts++;
    one->client = client;
    one->began = time;
    one->request = requests[client % request_count];
    one->length = strlen(one->request);
    one->sent = one->used = 0;
    if (one->fd < 0) dial(one); else push(one);
}

static void take(struct socket_ *one) {
    ssize_t count = recv(one->fd, one->input + one->used, INPUT_BYTES - 1 - one->used, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
        // A kept connection that was closed while it was idle is nobody's failure.
        if (one->client < 0) return hang_up(one);
        return ended(one, 0, 0);
    }
    one->used += count;
    one->input[one->used] = 0;
    char *end = memmem(one->input, one->used, "\r\n\r\n", 4);
    if (!end) return;
    char *length = strcasestr(one->input, "\r\ncontent-length:"), *later = strcasestr(one->input, "\r\nretry-after:");
    size_t whole = end + 4 - one->input + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
    if (one->used < whole) return;
    int closes = strcasestr(one->input, "\r\nconnection: close") != NULL;
    int status = atoi(one->input + 9) % 1000;
    one->used = 0;
    one->used_before = 1;
    if (one->client >= 0) ended(one, status, later && later < end ? atof(later + 14) : 0);
    if (closes) hang_up(one);
}

static int compare(const void *left, const void *right) {
    float a = *(const float *)left, b = *(const float *)right;
    return a < b ? -1 : a > b;
}

static double percentile(float *samples, long count, double share) {
    if (!count) return 0;
    long index = (long)(share * count);
    return samples[index >= count ? count - 1 : index] * 1000;
}

int main(int argc, char **argv) {
    if (argc < 7) return fprintf(stderr, "usage: herd PORT CLIENTS SOCKETS ARRIVAL SECONDS TOKENS [heedless]\n"), 64;
    signal(SIGPIPE, SIG_IGN);
    client_count = atoi(argv[2]);
    int socket_count = atoi(argv[3]);
    double arrival = atof(argv[4]), seconds = atof(argv[5]);
    heedless = argc > 7 && !strcmp(argv[7], "heedless");
    if (client_count < 1 || socket_count < 1 || socket_count > MAX_SOCKETS || seconds > MAX_BUCKETS * BUCKET) return 64;
    make_requests(argv[6]);
    server.sin_family = AF_INET;
    server.sin_port = htons(atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    set = epoll_create1(0);
    clients = calloc(client_count, sizeof *clients);
    sockets = calloc(socket_count, sizeof *sockets);
    line = calloc(client_count, sizeof *line);
    refused_times = malloc(MAX_SAMPLES * sizeof(float));
    served_times = malloc(MAX_SAMPLES * sizeof(float));
    for (int index = 0; index < SLOTS; index++) slots[index] = -1;
    for (int index = socket_count; index > 0; index--) {
        sockets[index - 1].fd = sockets[index - 1].client = -1;
        idle[idle_count++] = index - 1;
    }
    start = now();
    for (int client = 0; client < client_count; client++) wake_at(client, start + SLOT + arrival * random_());
    struct epoll_event events[512];
    long slot = 0, last_bucket = -1;
    while (done_count < client_count) {
        double time = now();
        if (time - start >= seconds) break;
        for (; slot <= (long)((time - start) / SLOT) - 1; slot++) {
            int client = slots[slot % SLOTS];
            slots[slot % SLOTS] = -1;
            for (int next; client >= 0; client = next) {
                next = clients[client].next;
                line[(line_first + line_count++) % client_count] = client;
            }
        }
        while (line_count > 0 && idle_count > 0) {
            int client = line[line_first];
            line_first = (line_first + 1) % client_count;
            line_count--;
            begin(client, time);
        }
        long index = (long)((time - start) / BUCKET);
        if (index != last_bucket) bucket(time)->waiting = line_count, last_bucket = index;
        int ready = epoll_wait(set, events, 512, 2);
        for (int index = 0; index < ready; index++) {
            struct socket_ *one = events[index].data.ptr;
            if (one->fd < 0) continue;
            if (one->connecting && (events[index].events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
                int error = 0;
                socklen_t size = sizeof error;
                getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &size);
                one->connecting = 0;
                if (error) {
                    if (one->client >= 0) ended(one, 0, 0); else hang_up(one);
                    continue;
                }
                watch(one, EPOLLIN, EPOLL_CTL_MOD);
                if (one->client >= 0) push(one);
                continue;
            }
            if (one->client >= 0 && one->sent < one->length && (events[index].events & EPOLLOUT)) push(one);
            if (one->fd >= 0 && (events[index].events & (EPOLLIN | EPOLLERR | EPOLLHUP))) take(one);
        }
    }
    double took = now() - start;
    long minted = 0, gave_up = 0;
    for (long index = 0; index <= (long)(took / BUCKET) && index < MAX_BUCKETS; index++) {
        struct bucket *one = &buckets[index];
        minted += one->minted, gave_up += one->gave_up;
        printf("{\"time\":%.1f,\"begun\":%ld,\"minted\":%ld,\"refused\":%ld,\"limited\":%ld,\"failed\":%ld,\"broken\":%ld,\"gave_up\":%ld,\"waiting\":%ld}\n",
               index * BUCKET, one->begun, one->minted, one->refused, one->limited, one->failed, one->broken, one->gave_up, one->waiting);
    }
    qsort(refused_times, refused_count, sizeof(float), compare);
    qsort(served_times, served_count, sizeof(float), compare);
    printf("{\"clients\":%d,\"minted\":%ld,\"gave_up\":%ld,\"left\":%ld,\"seconds\":%.1f,"
           "\"refused_ms\":{\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f},\"served_ms\":{\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f},\"attempts\":[",
           client_count, minted, gave_up, client_count - done_count, took, percentile(refused_times, refused_count, .5),
           percentile(refused_times, refused_count, .99), percentile(refused_times, refused_count, .999), percentile(refused_times, refused_count, 1),
           percentile(served_times, served_count, .5), percentile(served_times, served_count, .99), percentile(served_times, served_count, 1));
    for (int index = 1; index <= ATTEMPTS; index++) printf("%s%ld", index > 1 ? "," : "", attempts_by_success[index]);
    printf("],\"retry_after\":{");
    const char *comma = "";
    for (int index = 0; index <= 60; index++)
        if (retry_after_seen[index]) printf("%s\"%d\":%ld", comma, index, retry_after_seen[index]), comma = ",";
    printf("},\"others\":{");
    comma = "";
    for (int index = 0; index < 1000; index++)
        if (other_statuses[index]) printf("%s\"%d\":%ld", comma, index, other_statuses[index]), comma = ",";
    printf("}}\n");
    return 0;
}

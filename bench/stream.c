/* stream – GET and SET of large values over one connection to any RESP server, and the limits they
 * are measured against: the same exchange between two bare processes, and copies in memory.
 *
 * The client does the least a client can do: SET is one writev of header, warm buffer and tail, GET
 * one readv into them. So what is measured is the server. One JSON line per size and operation. */

#include "measure.h"

#include <arpa/inet.h>
#include <immintrin.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY_BYTES      27 /* every key is "stream:%010d:%09zu": two runs do not meet */
#define TIMEOUT_S      30 /* of one socket call: a hung server ends the program */
#define RAW_HEAD_BYTES 32 /* about what a RESP command's head takes */

struct setup {
    const char *peer;   /* name for the output; borrowed */
    const char *target; /* host:port, port or /socket; NULL in the modes without a server */
    const char *password;
    uint64_t sizes[MEASURE_SIZES_MAX];
    size_t size_count;
    uint64_t round_bytes; /* payload moved per round */
    uint64_t set_bytes;   /* all values of one size together */
    unsigned rounds;
    bool raw, raw_unix, memory;
};

/* ---- sockets -------------------------------------------------------------------------------- */

static void no_delay(int fd)
{
    int one = 1;
    struct timeval limit = {.tv_sec = TIMEOUT_S};
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int dial(const char *target)
{
    int fd;
    if (target[0] == '/') {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", target);
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
            measure_die("cannot connect to %s: %s", target, strerror(errno));
        }
    } else {
        const char *colon = strrchr(target, ':');
        char host[64] = "127.0.0.1";
        size_t host_length = colon != NULL ? (size_t)(colon - target) : 0;
        if (host_length > 0 && host_length < sizeof(host)) {
            memcpy(host, target, host_length);
            host[host_length] = '\0';
        }
        uint64_t port = measure_parse_number("--target", colon != NULL ? colon + 1 : target);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
            connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
            measure_die("cannot connect to %s: %s", target, strerror(errno));
        }
    }
    no_delay(fd);
    return fd;
}

/* Steps over `done` bytes of a list of pieces; returns how many pieces are left. */
static int skip_pieces(struct iovec **pieces_p, int count, size_t done)
{
    struct iovec *pieces = *pieces_p;
    while (count > 0 && done >= pieces->iov_len) {
        done -= pieces->iov_len;
        pieces++;
        count--;
    }
    if (count > 0) {
        pieces->iov_base = (uint8_t *)pieces->iov_base + done;
        pieces->iov_len -= done;
    }
    *pieces_p = pieces;
    return count;
}

static void write_pieces(int fd, struct iovec *pieces, int count)
{
    while (count > 0) {
        ssize_t done = writev(fd, pieces, count);
        if (done <= 0) {
            measure_die("write: %s", done == 0 ? "nothing written" : strerror(errno));
        }
        count = skip_pieces(&pieces, count, (size_t)done);
    }
}

static void read_pieces(int fd, struct iovec *pieces, int count)
{
    while (count > 0) {
        ssize_t done = readv(fd, pieces, count);
        if (done <= 0) {
            measure_die("read: %s", done == 0 ? "the server closed" : strerror(errno));
        }
        count = skip_pieces(&pieces, count, (size_t)done);
    }
}

/* ---- the RESP exchange ----------------------------------------------------------------------- */

static void expect_text(int fd, const char *expected)
{
    char reply[256] = "";
    size_t length = strlen(expected);
    size_t got = 0;
    while (got < length) {
        ssize_t done = read(fd, reply + got, length - got);
        if (done <= 0) {
            measure_die("read: %s", done == 0 ? "the server closed" : strerror(errno));
        }
        got += (size_t)done;
        if (memcmp(reply, expected, got) != 0) {
            (void)!read(fd, reply + got, sizeof(reply) - 1 - got);
            measure_die("the server said '%s' instead of '%s'", reply, expected);
        }
    }
}

static void authenticate(int fd, const char *password)
{
    char command[512];
    int length = snprintf(command, sizeof(command), "*2\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n",
                          strlen(password), password);
    struct iovec piece = {command, (size_t)length};
    write_pieces(fd, &piece, 1);
    expect_text(fd, "+OK\r\n");
}

static void resp_set(int fd, size_t key, uint8_t *value, size_t size)
{
    char head[128];
    char tail[] = "\r\n";
    int length =
        snprintf(head, sizeof(head), "*3\r\n$3\r\nSET\r\n$%d\r\nstream:%010d:%09zu\r\n$%zu\r\n",
                 KEY_BYTES, (int)getpid(), key, size);
    struct iovec pieces[] = {{head, (size_t)length}, {value, size}, {tail, 2}};
    write_pieces(fd, pieces, ARRAY_COUNT(pieces));
    expect_text(fd, "+OK\r\n");
}

static void resp_delete(int fd, size_t key)
{
    char command[128];
    int length =
        snprintf(command, sizeof(command), "*2\r\n$3\r\nDEL\r\n$%d\r\nstream:%010d:%09zu\r\n",
                 KEY_BYTES, (int)getpid(), key);
    struct iovec request = {command, (size_t)length};
    write_pieces(fd, &request, 1);
    expect_text(fd, ":1\r\n");
}

static void resp_get(int fd, size_t key, uint8_t *value, size_t size)
{
    char command[128];
    char expected[32];
    char head[32] = "";
    char tail[3] = "";
    int length =
        snprintf(command, sizeof(command), "*2\r\n$3\r\nGET\r\n$%d\r\nstream:%010d:%09zu\r\n",
                 KEY_BYTES, (int)getpid(), key);
    int head_length = snprintf(expected, sizeof(expected), "$%zu\r\n", size);
    struct iovec request = {command, (size_t)length};
    write_pieces(fd, &request, 1);
    /* Anything but a value of this very length begins differently, and may be shorter: look first
     * (the head comes with the first segment, so this costs no waiting of its own). */
    struct iovec pieces[] = {{head, (size_t)head_length}, {value, size}, {tail, 2}};
    struct iovec *rest = pieces;
    int count = ARRAY_COUNT(pieces);
    size_t got = 0;
    while (got < (size_t)head_length) {
        ssize_t done = readv(fd, rest, count);
        if (done <= 0) {
            measure_die("read: %s", done == 0 ? "the server closed" : strerror(errno));
        }
        got += (size_t)done;
        count = skip_pieces(&rest, count, (size_t)done);
        if (memcmp(head, expected, got < (size_t)head_length ? got : (size_t)head_length) != 0) {
            measure_die("GET of %zu bytes: the server said '%s...'", size, head);
        }
    }
    read_pieces(fd, rest, count);
    if (memcmp(tail, "\r\n", 2) != 0) {
        measure_die("GET of %zu bytes: no line end after the value", size);
    }
}

/* ---- the bare exchange ------------------------------------------------------------------------ */

/* The far side: takes a head; the first byte says whether a value follows or is to be sent. */
static ATTR_NORETURN void raw_peer(int fd, uint8_t *values, size_t slots, size_t size)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    char head[RAW_HEAD_BYTES];
    char tail[] = "+OK\r\n";
    for (size_t turn = 0;; turn++) {
        uint8_t *value = values + (turn % slots) * size;
        ssize_t got = recv(fd, head, sizeof(head), MSG_WAITALL);
        if (got != (ssize_t)sizeof(head)) {
            _exit(got == 0 ? 0 : 1);
        }
        if (head[0] == 's') {
            struct iovec piece = {value, size};
            read_pieces(fd, &piece, 1);
            struct iovec answer = {tail, 5};
            write_pieces(fd, &answer, 1);
        } else {
            struct iovec pieces[] = {{head, 10}, {value, size}, {tail, 2}};
            write_pieces(fd, pieces, ARRAY_COUNT(pieces));
        }
    }
}

static void raw_set(int fd, size_t key, uint8_t *value, size_t size)
{
    (void)key;
    char head[RAW_HEAD_BYTES] = "s";
    struct iovec pieces[] = {{head, sizeof(head)}, {value, size}};
    write_pieces(fd, pieces, ARRAY_COUNT(pieces));
    expect_text(fd, "+OK\r\n");
}

static void raw_get(int fd, size_t key, uint8_t *value, size_t size)
{
    (void)key;
    char head[RAW_HEAD_BYTES] = "g";
    char tail[2] = "";
    struct iovec request = {head, sizeof(head)};
    write_pieces(fd, &request, 1);
    struct iovec pieces[] = {{head, 10}, {value, size}, {tail, 2}};
    read_pieces(fd, pieces, ARRAY_COUNT(pieces));
}

static void tcp_pair(int pair[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || pair[0] < 0 ||
        bind(listener, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) < 0 ||
        listen(listener, 1) < 0 ||
        connect(pair[0], (const struct sockaddr *)&address, length) < 0) {
        measure_die("cannot make a TCP connection on loopback: %s", strerror(errno));
    }
    pair[1] = accept(listener, NULL, NULL);
    (void)close(listener);
    no_delay(pair[0]);
    no_delay(pair[1]);
}

/* Starts the far side; returns the near end. */
static int raw_start(const struct setup *setup, size_t slots, size_t size, pid_t *pid_p)
{
    int pair[2];
    if (!setup->raw_unix) {
        tcp_pair(pair);
    } else if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) {
        measure_die("socketpair: %s", strerror(errno));
    }
    *pid_p = fork();
    if (*pid_p < 0) {
        measure_die("fork: %s", strerror(errno));
    }
    if (*pid_p == 0) {
        (void)close(pair[0]);
        raw_peer(pair[1], measure_arena(slots * size), slots, size);
    }
    (void)close(pair[1]);
    return pair[0];
}

/* ---- rounds ------------------------------------------------------------------------------------ */

typedef void exchange_fn(int fd, size_t key, uint8_t *value, size_t size);

static void time_rounds(const struct setup *setup, int fd, exchange_fn *exchange, size_t size,
                        struct measure_samples *rates)
{
    size_t slots = measure_clamp(setup->set_bytes / size, 1, SIZE_MAX);
    size_t calls = measure_clamp(setup->round_bytes / size, 1, SIZE_MAX);
    uint8_t *value = measure_arena(size);
    measure_fill(value, size, 0);
    for (size_t i = 0; i < slots; i++) {
        exchange(fd, i, value, size); /* once untimed: wakes both sides up */
    }
    for (unsigned round = 0; round < setup->rounds; round++) {
        double start = measure_now();
        for (size_t i = 0; i < calls; i++) {
            exchange(fd, i % slots, value, size);
        }
        measure_add(rates, (double)(calls * size) / (measure_now() - start));
    }
    (void)munmap(value, size);
}

/* Every key gets contents of its own and must give them back. */
static void verify(int fd, size_t slots, size_t size)
{
    uint8_t *value = measure_arena(size);
    for (size_t i = 0; i < slots; i++) {
        measure_fill(value, size, i);
        resp_set(fd, i, value, size);
    }
    for (size_t i = 0; i < slots; i++) {
        memset(value, 0, size);
        resp_get(fd, i, value, size);
        if (!measure_holds(value, size, i, 0)) {
            measure_die("value %zu of %zu bytes came back with other contents", i, size);
        }
    }
    (void)munmap(value, size);
}

static void run_sockets(const struct setup *setup)
{
    struct measure_samples rates = {0};
    for (size_t i = 0; i < setup->size_count; i++) {
        size_t size = (size_t)setup->sizes[i];
        size_t slots = measure_clamp(setup->set_bytes / size, 1, SIZE_MAX);
        pid_t pid = -1;
        int fd = setup->raw ? raw_start(setup, slots, size, &pid) : dial(setup->target);
        if (setup->password != NULL && !setup->raw) {
            authenticate(fd, setup->password);
        }
        if (!setup->raw) {
            verify(fd, slots, size);
        }
        bool local = setup->raw ? setup->raw_unix : setup->target[0] == '/';
        for (int get = 0; get < 2; get++) {
            exchange_fn *set_or_get =
                setup->raw ? (get ? raw_get : raw_set) : (get ? resp_get : resp_set);
            measure_clear(&rates);
            time_rounds(setup, fd, set_or_get, size, &rates);
            measure_print_rate(setup->peer, local ? "unix" : "tcp", get ? "get" : "set", size,
                               &rates);
        }
        for (size_t key = 0; key < slots && !setup->raw; key++) {
            resp_delete(fd, key);
        }
        (void)close(fd);
        if (pid > 0) {
            (void)waitpid(pid, NULL, 0);
        }
    }
}

/* ---- copies in memory ----------------------------------------------------------------------------- */

/* The bar for large copies: stores that bypass the cache. Written here and not taken from the
 * project, so that a slow copy there cannot lower its own bar. */
static void copy_past_cache(uint8_t *to, const uint8_t *from, size_t length)
{
    size_t i = 0;
    for (; i + 64 <= length; i += 64) {
        _mm_prefetch((const char *)(from + i + 512), _MM_HINT_NTA);
        const __m128i *source = (const __m128i *)(const void *)(from + i);
        __m128i *sink = (__m128i *)(void *)(to + i);
        __m128i a = _mm_loadu_si128(source);
        __m128i b = _mm_loadu_si128(source + 1);
        __m128i c = _mm_loadu_si128(source + 2);
        __m128i d = _mm_loadu_si128(source + 3);
        _mm_stream_si128(sink, a);
        _mm_stream_si128(sink + 1, b);
        _mm_stream_si128(sink + 2, c);
        _mm_stream_si128(sink + 3, d);
    }
    memcpy(to + i, from + i, length - i);
    _mm_sfence();
}

static void copy_plain(uint8_t *to, const uint8_t *from, size_t length)
{
    memcpy(to, from, length);
    __asm__ volatile("" : : "r"(to) : "memory");
}

/* As an engine does that gets values: from many slots into as many of its own. */
static void run_memory(const struct setup *setup)
{
    struct measure_samples rates = {0};
    for (size_t i = 0; i < setup->size_count; i++) {
        size_t size = (size_t)setup->sizes[i];
        size_t slots = measure_clamp(setup->set_bytes / size, 1, SIZE_MAX);
        size_t calls = measure_clamp(setup->round_bytes / size, 1, SIZE_MAX);
        uint8_t *from = measure_arena(slots * size);
        uint8_t *to = measure_arena(slots * size);
        for (int past = 0; past < 2; past++) {
            measure_clear(&rates);
            for (unsigned round = 0; round < setup->rounds; round++) {
                double start = measure_now();
                for (size_t call = 0; call < calls; call++) {
                    size_t offset = call % slots * size;
                    (past ? copy_past_cache : copy_plain)(to + offset, from + offset, size);
                }
                measure_add(&rates, (double)(calls * size) / (measure_now() - start));
            }
            measure_print_rate(past ? "nontemporal" : "memcpy", "memory", "copy", size, &rates);
        }
        (void)munmap(from, slots * size);
        (void)munmap(to, slots * size);
    }
}

/* ---- main ------------------------------------------------------------------------------------------- */

static const char USAGE[] =
    "stream --target HOST:PORT|PORT|/SOCKET   GET and SET at a RESP server\n"
    "stream --raw [--unix]                    the same exchange between two bare processes\n"
    "stream --memcpy                          one-thread copies in memory\n"
    "  --peer NAME        name in the output (the mode)\n"
    "  --password TEXT    AUTH first\n"
    "  --sizes A,B        value sizes (1m,4m,16m)\n"
    "  --round-bytes N    payload per round (256m)\n"
    "  --set-bytes N      all values of one size together (64m); at least one value\n"
    "  --rounds N         the median of so many is printed (5)\n";

static void parse_value(struct setup *setup, const char *option, const char *value)
{
    if (strcmp(option, "--target") == 0) {
        setup->target = value;
    } else if (strcmp(option, "--peer") == 0) {
        setup->peer = value;
    } else if (strcmp(option, "--password") == 0) {
        setup->password = value;
    } else if (strcmp(option, "--sizes") == 0) {
        setup->size_count = measure_parse_list(option, value, setup->sizes);
    } else if (strcmp(option, "--round-bytes") == 0) {
        setup->round_bytes = measure_parse_number(option, value);
    } else if (strcmp(option, "--set-bytes") == 0) {
        setup->set_bytes = measure_parse_number(option, value);
    } else if (strcmp(option, "--rounds") == 0) {
        setup->rounds = (unsigned)measure_parse_number(option, value);
    } else {
        measure_die("unknown option %s\n%s", option, USAGE);
    }
}

static void parse(struct setup *setup, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--raw") == 0) {
            setup->raw = true;
        } else if (strcmp(argv[i], "--unix") == 0) {
            setup->raw_unix = true;
        } else if (strcmp(argv[i], "--memcpy") == 0) {
            setup->memory = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(USAGE, stdout);
            exit(0);
        } else if (i + 1 == argc) {
            measure_die("%s takes a value\n%s", argv[i], USAGE);
        } else {
            parse_value(setup, argv[i], argv[i + 1]);
            i++;
        }
    }
    bool sized = setup->size_count > 0;
    for (size_t i = 0; i < setup->size_count; i++) {
        sized = sized && setup->sizes[i] >= 4096;
    }
    if (!sized || setup->rounds == 0 || setup->rounds > MEASURE_ROUNDS_MAX) {
        measure_die("--sizes takes sizes of 4k and more, --rounds 1 to %d", MEASURE_ROUNDS_MAX);
    }
    if (setup->target == NULL && !setup->raw && !setup->memory) {
        measure_die("%s", USAGE);
    }
}

int main(int argc, char **argv)
{
    struct setup setup = {
        .sizes = {MEASURE_MIB, 4 * MEASURE_MIB, 16 * MEASURE_MIB},
        .size_count = 3,
        .round_bytes = 256 * MEASURE_MIB,
        .set_bytes = 64 * MEASURE_MIB,
        .rounds = 5,
    };
    (void)signal(SIGPIPE, SIG_IGN);
    parse(&setup, argc, argv);
    if (setup.peer == NULL) {
        setup.peer = setup.raw ? "raw" : "server";
    }
    if (setup.memory) {
        run_memory(&setup);
    } else {
        run_sockets(&setup);
    }
    return 0;
}

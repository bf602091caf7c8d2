/* Fills a store with values of mixed and changing sizes and says how much of its memory holds values.
 *
 *   fragment --port P [--peer NAME] [--protocol resp|memcached] [--pid N] --memory BYTES
 *            [--payload BYTES] [--turnover N] [--puts N] [--value-max BYTES] [--seed N]
 *     --pid       of the server: its resident memory is read from /proc
 *     --memory    what the server may take; --payload the part of it that is for values
 *     --turnover  each phase writes so many times the memory
 *     --puts      and no more than this number of values
 *
 * Sizes are log-uniform from 1 KiB to --value-max (64 MiB), then the mix changes from phase to phase, then
 * the blocks of two models are interleaved. At the end of each phase the store is
 * topped up with short values, and every key that was ever put is asked
 * for, so that what counts as live is what a client can still get, whatever the server is; some values
 * are read back and compared. Then a value of --value-max is put: what it threw out is its cost. */

#include "base/compiler.h"
#include "base/random.h"
#include "measure.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define REPLY_BYTES    (64U << 10)
#define ASK_BATCH      500U
#define COMPARED_COUNT 50U
#define KEY_BYTES      48
#define TOP_UP_BYTES   (64U << 10)
#define KEYS_MAX       (8U << 20)

struct phase {
    const char *name;
    uint64_t from_bytes;
    uint64_t to_bytes; /* 0: only from_bytes and other_bytes, at random */
    uint64_t other_bytes;
};

/* Blocks of 2.25 MiB and of 640 KiB, as of a model with 8 and one with 4 key-value heads. */
static const struct phase PHASES[] = {
    {.name = "mixed 1k-64m", .from_bytes = 1024, .to_bytes = 64U << 20},
    {.name = "small 1k-64k", .from_bytes = 1024, .to_bytes = 64U << 10},
    {.name = "long 4m-64m", .from_bytes = 4U << 20, .to_bytes = 64U << 20},
    {.name = "middle 64k-4m", .from_bytes = 64U << 10, .to_bytes = 4U << 20},
    {.name = "two models", .from_bytes = 2359296, .other_bytes = 655360},
    {.name = "mixed again", .from_bytes = 1024, .to_bytes = 64U << 20},
};

struct setup {
    const char *peer;
    bool is_memcached;
    uint16_t port;
    long pid;
    uint64_t memory_bytes;
    uint64_t payload_bytes;
    uint64_t turnover;
    uint64_t puts_max;
    uint64_t value_bytes_max;
    uint64_t seed;
};

struct bench {
    struct setup setup;
    struct random random;
    int fd;
    uint8_t *arena;    /* what values are cut from: twice the longest value */
    uint32_t *lengths; /* owned; of each key put, 0: it was refused */
    uint8_t *got;      /* owned; a value that came back */
    size_t key_count;
    char reply[REPLY_BYTES];
    size_t reply_start, reply_end;
};

/* ---- wire -------------------------------------------------------------------------------------- */

static void connect_to(struct bench *bench)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(bench->setup.port)};
    int one = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bench->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bench->fd < 0 || connect(bench->fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        measure_die("cannot connect to port %u: %s", bench->setup.port, strerror(errno));
    }
    (void)setsockopt(bench->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void send_all(const struct bench *bench, struct iovec *pieces, int count)
{
    while (count > 0) {
        ssize_t sent = writev(bench->fd, pieces, count);
        if (sent < 0) {
            measure_die("send: %s", strerror(errno));
        }
        size_t left = (size_t)sent;
        while (count > 0 && left >= pieces->iov_len) {
            left -= pieces->iov_len;
            pieces++;
            count--;
        }
        if (count > 0) {
            pieces->iov_base = (uint8_t *)pieces->iov_base + left;
            pieces->iov_len -= left;
        }
    }
}

static void receive_more(struct bench *bench)
{
    if (bench->reply_start > 0) {
        memmove(bench->reply, bench->reply + bench->reply_start,
                bench->reply_end - bench->reply_start);
        bench->reply_end -= bench->reply_start;
        bench->reply_start = 0;
    }
    ssize_t got =
        recv(bench->fd, bench->reply + bench->reply_end, REPLY_BYTES - bench->reply_end, 0);
    if (got <= 0) {
        measure_die("receive: %s", got == 0 ? "the server closed the connection" : strerror(errno));
    }
    bench->reply_end += (size_t)got;
}

/* One line without its end, valid until the next call. */
static const char *receive_line(struct bench *bench)
{
    for (;;) {
        char *start = bench->reply + bench->reply_start;
        char *end = memchr(start, '\n', bench->reply_end - bench->reply_start);
        if (end != NULL) {
            bench->reply_start = (size_t)(end - bench->reply) + 1;
            *end = '\0';
            if (end > start && end[-1] == '\r') {
                end[-1] = '\0';
            }
            return start;
        }
        receive_more(bench);
    }
}

static void receive_bytes(struct bench *bench, uint8_t *to, size_t length_bytes)
{
    size_t at_hand = bench->reply_end - bench->reply_start;
    size_t first = at_hand < length_bytes ? at_hand : length_bytes;
    memcpy(to, bench->reply + bench->reply_start, first);
    bench->reply_start += first;
    while (first < length_bytes) {
        ssize_t got = recv(bench->fd, to + first, length_bytes - first, 0);
        if (got <= 0) {
            measure_die("receive: the value ends early");
        }
        first += (size_t)got;
    }
}

static int key_of(char key[KEY_BYTES], size_t number)
{
    return snprintf(key, KEY_BYTES, "fragment:%010zu", number);
}

/* Where in the arena a key's value begins. */
static const uint8_t *value_of(const struct bench *bench, size_t number)
{
    return bench->arena + number * 4099 % (bench->setup.value_bytes_max / 8) * 8;
}

/* False: the server had no room for it. */
static bool put(struct bench *bench, size_t number, size_t length_bytes)
{
    char key[KEY_BYTES];
    char head[256];
    int key_length = key_of(key, number);
    int head_length = bench->setup.is_memcached
                          ? snprintf(head, sizeof(head), "set %s 0 0 %zu\r\n", key, length_bytes)
                          : snprintf(head, sizeof(head), "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n",
                                     key_length, key, length_bytes);
    struct iovec pieces[] = {
        {.iov_base = head, .iov_len = (size_t)head_length},
        {.iov_base = bench->arena + (value_of(bench, number) - bench->arena),
         .iov_len = length_bytes},
        {.iov_base = (char[]){"\r\n"}, .iov_len = 2},
    };
    send_all(bench, pieces, 3);
    const char *line = receive_line(bench);
    return strcmp(line, "+OK") == 0 || strcmp(line, "STORED") == 0;
}

/* Asks for count keys from first on; marks in present which are there. */
static void ask(struct bench *bench, size_t first, size_t count, bool *present)
{
    static char text[ASK_BATCH * 96];
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        char key[KEY_BYTES];
        int key_length = key_of(key, first + i);
        length += (size_t)(bench->setup.is_memcached
                               ? snprintf(text + length, sizeof(text) - length, "mg %s s\r\n", key)
                               : snprintf(text + length, sizeof(text) - length,
                                          "*2\r\n$6\r\nEXISTS\r\n$%d\r\n%s\r\n", key_length, key));
    }
    struct iovec piece = {.iov_base = text, .iov_len = length};
    send_all(bench, &piece, 1);
    for (size_t i = 0; i < count; i++) {
        const char *line = receive_line(bench);
        present[i] = strcmp(line, ":1") == 0 || strncmp(line, "HD", 2) == 0;
    }
}

/* How many values the server says that it evicted. */
static uint64_t evicted_count(struct bench *bench)
{
    static const char *const questions[] = {"*2\r\n$4\r\nINFO\r\n$5\r\nstats\r\n", "stats\r\n"};
    static const char *const names[] = {"evicted_keys:", "STAT evictions "};
    const char *question = questions[bench->setup.is_memcached];
    const char *name = names[bench->setup.is_memcached];
    uint64_t count = 0;
    struct iovec piece = {.iov_base = (char *)(uintptr_t)question, .iov_len = strlen(question)};
    send_all(bench, &piece, 1);
    if (bench->setup.is_memcached) {
        const char *line;
        while (strcmp(line = receive_line(bench), "END") != 0) {
            count = strncmp(line, name, strlen(name)) == 0 ? strtoull(line + strlen(name), NULL, 10)
                                                           : count;
        }
        return count;
    }
    size_t left = strtoull(receive_line(bench) + 1, NULL, 10) + 2; /* and its end */
    while (left > 0) {
        size_t start = bench->reply_start;
        const char *line = receive_line(bench);
        count = strncmp(line, name, strlen(name)) == 0 ? strtoull(line + strlen(name), NULL, 10)
                                                       : count;
        /* What came in meanwhile was moved to the front. */
        size_t used = bench->reply_start > start && line == bench->reply + start
                          ? bench->reply_start - start
                          : bench->reply_start;
        left -= used < left ? used : left;
    }
    return count;
}

static void compare(struct bench *bench, size_t number)
{
    char key[KEY_BYTES];
    char text[128];
    int key_length = key_of(key, number);
    int length =
        bench->setup.is_memcached
            ? snprintf(text, sizeof(text), "get %s\r\n", key)
            : snprintf(text, sizeof(text), "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", key_length, key);
    struct iovec piece = {.iov_base = text, .iov_len = (size_t)length};
    send_all(bench, &piece, 1);
    const char *line = receive_line(bench);
    if (strcmp(line, "$-1") == 0 || strcmp(line, "END") == 0) {
        return; /* evicted since it was asked for */
    }
    const char *space = strrchr(line, ' ');
    size_t got_bytes = strtoull(space != NULL ? space + 1 : line + 1, NULL, 10);
    size_t wanted_bytes = bench->lengths[number];
    if (got_bytes != wanted_bytes) {
        measure_die("%s has %zu bytes, not %zu", key, got_bytes, wanted_bytes);
    }
    receive_bytes(bench, bench->got, got_bytes);
    if (memcmp(bench->got, value_of(bench, number), got_bytes) != 0) {
        measure_die("%s came back with other bytes", key);
    }
    (void)receive_line(bench);
    if (bench->setup.is_memcached) {
        (void)receive_line(bench);
    }
}

/* ---- phases ------------------------------------------------------------------------------------ */

static size_t random_length(struct bench *bench, const struct phase *phase)
{
    if (phase->to_bytes == 0) {
        return random_below(&bench->random, 2) == 0 ? phase->from_bytes : phase->other_bytes;
    }
    double low = log((double)phase->from_bytes);
    double high = log((double)phase->to_bytes);
    double part = (double)random_below(&bench->random, 1U << 30) / (double)(1U << 30);
    return measure_clamp((uint64_t)exp(low + (high - low) * part), 1, bench->setup.value_bytes_max);
}

struct count {
    uint64_t live_bytes;
    size_t live_count;
};

static struct count count_live(struct bench *bench, bool is_compared)
{
    struct count count = {0};
    for (size_t first = 0; first < bench->key_count; first += ASK_BATCH) {
        bool present[ASK_BATCH];
        size_t left = bench->key_count - first;
        size_t asked = left < ASK_BATCH ? left : ASK_BATCH;
        ask(bench, first, asked, present);
        for (size_t i = 0; i < asked; i++) {
            if (present[i]) {
                count.live_bytes += bench->lengths[first + i];
                count.live_count++;
            }
        }
        if (is_compared && present[asked / 2] &&
            random_below(&bench->random, count.live_count / COMPARED_COUNT + 1) == 0) {
            compare(bench, first + asked / 2);
        }
    }
    return count;
}

static uint64_t resident_bytes(const struct bench *bench)
{
    char path[64];
    char line[256] = "";
    char *end = NULL;
    if (bench->setup.pid <= 0) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/statm", bench->setup.pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(line, sizeof(line), file) == NULL) {
        measure_die("cannot read %s", path);
    }
    (void)fclose(file);
    (void)strtoull(line, &end, 10); /* its address space */
    return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* True when it was stored; its time joins the samples. */
static bool put_next(struct bench *bench, size_t length_bytes, struct measure_samples *times)
{
    if (bench->key_count == KEYS_MAX) {
        measure_die("more than %u values", KEYS_MAX);
    }
    size_t number = bench->key_count++;
    double start = measure_now();
    bool stored = put(bench, number, length_bytes);
    measure_add(times, measure_now() - start);
    bench->lengths[number] = stored ? (uint32_t)length_bytes : 0;
    return stored;
}

/* What the last eviction of a long value left free is no lack of the store: short values are put until
 * something is evicted for one. Returns the bytes of those before it: so much more was live when the
 * store was full. */
static uint64_t top_up(struct bench *bench)
{
    struct measure_samples times = {0};
    uint64_t evicted = evicted_count(bench);
    uint64_t top_up_bytes = 0;
    while (top_up_bytes < bench->setup.memory_bytes && evicted_count(bench) == evicted) {
        if (!put_next(bench, TOP_UP_BYTES, &times)) {
            break;
        }
        top_up_bytes += TOP_UP_BYTES;
    }
    free(times.values);
    return top_up_bytes > TOP_UP_BYTES ? top_up_bytes - TOP_UP_BYTES : 0;
}

static void run_phase(struct bench *bench, const struct phase *phase)
{
    const struct setup *setup = &bench->setup;
    struct measure_samples times = {0};
    struct measure_samples last = {0};
    uint64_t written_bytes = 0;
    size_t failed_count = 0;
    while (written_bytes < setup->turnover * setup->memory_bytes && times.count < setup->puts_max) {
        size_t length_bytes = random_length(bench, phase);
        failed_count += !put_next(bench, length_bytes, &times);
        written_bytes += length_bytes;
    }
    struct count full = count_live(bench, true);
    full.live_bytes += top_up(bench);
    struct count before = count_live(bench, false);
    uint64_t resident = resident_bytes(bench);
    size_t long_bytes = setup->value_bytes_max;
    bool fits = put_next(bench, long_bytes, &last);
    struct count after = count_live(bench, false);
    double lost_mib =
        ((double)before.live_bytes + (fits ? (double)long_bytes : 0) - (double)after.live_bytes) /
        (double)MEASURE_MIB;
    (void)printf("{\"peer\":\"%s\",\"phase\":\"%s\",\"puts\":%zu,\"written_gib\":%.1f,"
                 "\"live_share\":%.4f,\"live_of_memory\":%.4f,\"rss_share\":%.4f,\"failed\":%zu,"
                 "\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f,\"long_fits\":%s,"
                 "\"long_mib\":%.1f,\"long_evicted_mib\":%.1f,\"long_us\":%.0f,\"values\":%zu}\n",
                 setup->peer, phase->name, times.count,
                 (double)written_bytes / (double)MEASURE_MIB / 1024,
                 (double)full.live_bytes / (double)setup->payload_bytes,
                 (double)full.live_bytes / (double)setup->memory_bytes,
                 (double)resident / (double)setup->memory_bytes, failed_count,
                 measure_quantile(&times, 0.5) * 1e6, measure_quantile(&times, 0.99) * 1e6,
                 measure_quantile(&times, 1) * 1e6, fits ? "true" : "false",
                 (double)long_bytes / (double)MEASURE_MIB, lost_mib,
                 measure_quantile(&last, 1) * 1e6, full.live_count);
    (void)fflush(stdout);
    free(times.values);
    free(last.values);
}

/* ---- options ----------------------------------------------------------------------------------- */

enum option_id {
    OPTION_PORT = 1,
    OPTION_PEER,
    OPTION_PROTOCOL,
    OPTION_PID,
    OPTION_MEMORY,
    OPTION_PAYLOAD,
    OPTION_TURNOVER,
    OPTION_PUTS,
    OPTION_VALUE_MAX,
    OPTION_SEED,
};

static const struct option OPTIONS[] = {
    {"port", required_argument, NULL, OPTION_PORT},
    {"peer", required_argument, NULL, OPTION_PEER},
    {"protocol", required_argument, NULL, OPTION_PROTOCOL},
    {"pid", required_argument, NULL, OPTION_PID},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"payload", required_argument, NULL, OPTION_PAYLOAD},
    {"turnover", required_argument, NULL, OPTION_TURNOVER},
    {"puts", required_argument, NULL, OPTION_PUTS},
    {"value-max", required_argument, NULL, OPTION_VALUE_MAX},
    {"seed", required_argument, NULL, OPTION_SEED},
    {NULL, 0, NULL, 0},
};

static void set_option(struct setup *setup, int option)
{
    switch (option) {
    case OPTION_PORT:
        setup->port = (uint16_t)measure_parse_number("--port", optarg);
        return;
    case OPTION_PEER:
        setup->peer = optarg;
        return;
    case OPTION_PROTOCOL:
        setup->is_memcached = strcmp(optarg, "memcached") == 0;
        return;
    case OPTION_PID:
        setup->pid = (long)measure_parse_number("--pid", optarg);
        return;
    case OPTION_MEMORY:
        setup->memory_bytes = measure_parse_number("--memory", optarg);
        return;
    case OPTION_PAYLOAD:
        setup->payload_bytes = measure_parse_number("--payload", optarg);
        return;
    case OPTION_TURNOVER:
        setup->turnover = measure_parse_number("--turnover", optarg);
        return;
    case OPTION_PUTS:
        setup->puts_max = measure_parse_number("--puts", optarg);
        return;
    case OPTION_VALUE_MAX:
        setup->value_bytes_max = measure_parse_number("--value-max", optarg);
        return;
    case OPTION_SEED:
        setup->seed = measure_parse_number("--seed", optarg);
        return;
    default:
        measure_die("see the top of fragment.c for the options");
    }
}

static struct setup read_options(int argc, char **argv)
{
    struct setup setup = {
        .peer = "kvasir",
        .turnover = 4,
        .puts_max = UINT64_MAX,
        .value_bytes_max = 64U << 20,
        .seed = 1,
    };
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        set_option(&setup, option);
    }
    if (setup.port == 0 || setup.memory_bytes == 0 || setup.value_bytes_max < 4096 ||
        setup.value_bytes_max > UINT32_MAX) {
        measure_die("--port and --memory are needed, and --value-max is 4k to 4g");
    }
    if (setup.payload_bytes == 0) {
        setup.payload_bytes = setup.memory_bytes;
    }
    return setup;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    bench.setup = read_options(argc, argv);
    random_init(&bench.random, bench.setup.seed);
    bench.arena = measure_arena(2 * bench.setup.value_bytes_max);
    measure_fill(bench.arena, 2 * bench.setup.value_bytes_max, bench.setup.seed);
    bench.got = malloc(bench.setup.value_bytes_max);
    bench.lengths = calloc(KEYS_MAX, sizeof(*bench.lengths));
    if (bench.got == NULL || bench.lengths == NULL) {
        measure_die("no memory");
    }
    connect_to(&bench);
    for (size_t i = 0; i < ARRAY_COUNT(PHASES); i++) {
        run_phase(&bench, &PHASES[i]);
    }
    (void)close(bench.fd);
    free(bench.got);
    free(bench.lengths);
    return 0;
}

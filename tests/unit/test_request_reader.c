/* Unit tests of proto/request_reader. */
#include "proto/request_reader.h"

#include "base/random.h"

#include "test_seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define ARGS_ROOM     32U
#define LOG_BYTES_MAX 2048U

static const struct reader_limits LIMITS = {
    .args_max = 1024 * 1024, .bulk_bytes_max = 512ULL << 20, .inline_bytes_max = 64U << 10};

/* What a stream of bytes was read as, in a form that can be compared: every request as
 * "[length:bytes][…]\n", an error as "!text". */
struct transcript {
    char text[LOG_BYTES_MAX];
    size_t length_bytes;
    uint32_t request_count;
};

static void transcript_add(struct transcript *log, const void *data, size_t length_bytes)
{
    assert_true(log->length_bytes + length_bytes < LOG_BYTES_MAX);
    memcpy(log->text + log->length_bytes, data, length_bytes);
    log->length_bytes += length_bytes;
}

static void transcript_add_request(struct transcript *log, const struct slice *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char head[32];
        int length = snprintf(head, sizeof(head), "[%zu:", args[i].length_bytes);
        transcript_add(log, head, (size_t)length);
        if (args[i].length_bytes > 0) {
            transcript_add(log, args[i].data, args[i].length_bytes);
        }
        transcript_add(log, "]", 1);
    }
    transcript_add(log, "\n", 1);
    log->request_count++;
}

/* A connection's buffer as a server would keep it. Each call gets a fresh copy of exactly the
 * unread bytes, so that a sanitizer sees a read beyond them and stale pointers show. */
struct feed {
    struct request_reader reader;
    struct slice args[ARGS_ROOM];
    uint8_t *data; /* owned */
    size_t length_bytes;
    struct transcript log;
    bool broken;
};

static void feed_init(struct feed *feed)
{
    memset(feed, 0, sizeof(*feed));
    request_reader_init(&feed->reader);
}

static void feed_fini(struct feed *feed)
{
    free(feed->data);
    feed->data = NULL;
}

static void feed_drop(struct feed *feed, size_t length_bytes)
{
    assert_true(length_bytes <= feed->length_bytes);
    memmove(feed->data, feed->data + length_bytes, feed->length_bytes - length_bytes);
    feed->length_bytes -= length_bytes;
}

static void feed_bytes(struct feed *feed, const void *data, size_t length_bytes)
{
    size_t total = feed->length_bytes + length_bytes;
    uint8_t *grown = malloc(total > 0 ? total : 1);
    assert_non_null(grown);
    if (feed->length_bytes > 0) {
        memcpy(grown, feed->data, feed->length_bytes);
    }
    memcpy(grown + feed->length_bytes, data, length_bytes);
    free(feed->data);
    feed->data = grown;
    feed->length_bytes += length_bytes;
    while (!feed->broken) {
        size_t consumed = 0;
        enum reader_result result =
            request_reader_advance(&feed->reader, feed->data, feed->length_bytes, &LIMITS,
                                   feed->args, ARGS_ROOM, &consumed);
        if (result == READER_REQUEST) {
            transcript_add_request(&feed->log, feed->args, feed->reader.arg_count);
            feed_drop(feed, consumed);
        } else if (result == READER_BULK) {
            request_reader_accept_bulk(&feed->reader);
        } else if (result == READER_MORE) {
            feed_drop(feed, consumed);
            return;
        } else {
            assert_int_equal(result, READER_ERROR);
            transcript_add(&feed->log, "!", 1);
            transcript_add(&feed->log, feed->reader.error, strlen(feed->reader.error));
            feed->broken = true;
        }
    }
}

static void assert_log(const struct feed *feed, const char *expected, size_t length_bytes)
{
    assert_int_equal(feed->log.length_bytes, length_bytes);
    assert_memory_equal(feed->log.text, expected, length_bytes);
}

#define ASSERT_READS(stream, expected)                        \
    do {                                                      \
        struct feed feed_;                                    \
        feed_init(&feed_);                                    \
        feed_bytes(&feed_, (stream), sizeof(stream) - 1);     \
        assert_log(&feed_, (expected), sizeof(expected) - 1); \
        feed_fini(&feed_);                                    \
    } while (0)

static void test_request_reader_reads_arrays_and_inline_lines(void **state)
{
    (void)state;
    ASSERT_READS("*1\r\n$4\r\nPING\r\n", "[4:PING]\n");
    ASSERT_READS("*2\r\n$3\r\nGET\r\n$0\r\n\r\nPING\r\n", "[3:GET][0:]\n[4:PING]\n");
    ASSERT_READS("PING\n", "[4:PING]\n");
    ASSERT_READS("  PING \t \r\nget  k\r\n", "[4:PING]\n[3:get][1:k]\n");
    ASSERT_READS("*1\r\n$12\r\nabcdefghijkl\r\n", "[12:abcdefghijkl]\n");
}

static void test_request_reader_skips_empty_requests(void **state)
{
    (void)state;
    ASSERT_READS("\r\n*-10\r\n*0\r\n\n  \t\r\n*-1\r\n\r\nPING\r\n", "[4:PING]\n");
}

static void test_request_reader_unquotes_inline_arguments(void **state)
{
    (void)state;
    ASSERT_READS("SET k \"a b\\x00\\r\\n\\\"z\"\r\n", "[3:SET][1:k][8:a b\0\r\n\"z]\n");
    ASSERT_READS("SET k 'it\\'s \\x41'\r\n", "[3:SET][1:k][9:it's \\x41]\n");
    ASSERT_READS("a \"\\t\\b\\a\\q\\x4\\xZZ\\xfF\"\n", "[1:a][10:\t\b\aqx4xZZ\xff]\n");
    ASSERT_READS("a \"\" ''\n", "[1:a][0:][0:]\n");
    ASSERT_READS("a pre\"fix and\" more\n", "[1:a][10:prefix and][4:more]\n");
    ASSERT_READS("a b\0c\n", "[1:a][3:b\0c]\n");
    ASSERT_READS("a b\rc\n", "[1:a][1:b][1:c]\n");
    ASSERT_READS("a \v\fb\vc\n", "[1:a][3:b\vc]\n");
}

static void test_request_reader_names_every_error(void **state)
{
    (void)state;
    static const struct {
        const char *stream;
        const char *error;
    } cases[] = {
        {"*3000000000\r\n", "!Protocol error: invalid multibulk length"},
        {"*1048577\r\n", "!Protocol error: invalid multibulk length"},
        {"*x\r\n", "!Protocol error: invalid multibulk length"},
        {"*\r\n", "!Protocol error: invalid multibulk length"},
        {"*1x\r\n", "!Protocol error: invalid multibulk length"},
        {"*+1\r\n", "!Protocol error: invalid multibulk length"},
        {"* 1\r\n", "!Protocol error: invalid multibulk length"},
        {"*01\r\n", "!Protocol error: invalid multibulk length"},
        {"*-0\r\n", "!Protocol error: invalid multibulk length"},
        {"*99999999999999999999\r\n", "!Protocol error: invalid multibulk length"},
        {"*-99999999999999999999\r\n", "!Protocol error: invalid multibulk length"},
        {"*1\n$4\r\nPING\r\n", "!Protocol error: invalid multibulk length"},
        {"*1\r\n$-1\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$-10\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$blabla\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$ 5\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$+5\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$5x\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$05\r\nhello\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$536870913\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\n$9223372036854775808\r\n", "!Protocol error: invalid bulk length"},
        {"*1\r\nfoo\r\n", "!Protocol error: expected '$', got 'f'"},
        {"*1\r\n:1\r\n", "!Protocol error: expected '$', got ':'"},
        {"*1\r\n*1\r\n$4\r\nPING\r\n", "!Protocol error: expected '$', got '*'"},
        {"*1\r\n\x01\r\n", "!Protocol error: expected '$', got '\\x01'"},
        {"*1\r\n\r\n", "!Protocol error: expected '$', got '\\x0d'"},
        {"*1\r\n\r1", "!Protocol error: expected '$', got '\\x0d'"},
        {"set \"\"\"test-key\"\"\" v\r\nping\r\n", "!Protocol error: unbalanced quotes in request"},
        {"set \"open\r\n", "!Protocol error: unbalanced quotes in request"},
        {"set 'open\\'\r\n", "!Protocol error: unbalanced quotes in request"},
        {"set \"back\\\r\n", "!Protocol error: unbalanced quotes in request"},
        {"set 'a'b\r\n", "!Protocol error: unbalanced quotes in request"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct feed feed;
        feed_init(&feed);
        feed_bytes(&feed, cases[i].stream, strlen(cases[i].stream));
        assert_log(&feed, cases[i].error, strlen(cases[i].error));
        feed_fini(&feed);
    }
}

static void test_request_reader_keeps_requests_before_an_error(void **state)
{
    (void)state;
    ASSERT_READS("PING\r\n*1\r\n$1\r\nx\r\n*x\r\nPING\r\n",
                 "[4:PING]\n[1:x]\n!Protocol error: invalid multibulk length");
}

static void test_request_reader_stays_broken(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    feed_bytes(&feed, "*x\r\n", 4);
    uint8_t next[] = "PING\r\n";
    size_t consumed = 1;

    enum reader_result result = request_reader_advance(&feed.reader, next, sizeof(next) - 1,
                                                       &LIMITS, feed.args, ARGS_ROOM, &consumed);

    assert_int_equal(result, READER_ERROR);
    assert_int_equal(consumed, 0);
    assert_string_equal(feed.reader.error, "Protocol error: invalid multibulk length");
    feed_fini(&feed);
}

/* An endless line must be refused at 64 KiB, whatever it begins with and however it arrives. */
static void check_endless(const char *prefix, size_t prefix_bytes, const char *error, size_t step)
{
    size_t total = 70000;
    uint8_t *stream = malloc(total);
    assert_non_null(stream);
    memset(stream, 'A', total);
    memcpy(stream, prefix, prefix_bytes);
    struct request_reader reader;
    request_reader_init(&reader);
    struct slice args[ARGS_ROOM];
    enum reader_result result = READER_MORE;
    size_t given = 0;
    while (result == READER_MORE && given < total) {
        given = given + step < total ? given + step : total;
        size_t consumed = 0;
        result =
            request_reader_advance(&reader, stream, given, &LIMITS, args, ARGS_ROOM, &consumed);
        assert_int_equal(consumed, 0);
    }
    assert_int_equal(result, READER_ERROR);
    assert_string_equal(reader.error, error);
    assert_true(given <= 65536 + 4 + step);
    free(stream);
}

static void test_request_reader_refuses_endless_lines(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 1000, 65536, 70000};
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        check_endless("", 0, "Protocol error: too big inline request", steps[i]);
        check_endless("\0", 1, "Protocol error: too big inline request", steps[i]);
        check_endless("$\0", 2, "Protocol error: too big inline request", steps[i]);
        check_endless("*\0", 2, "Protocol error: too big mbulk count string", steps[i]);
        check_endless("*1\r\n$", 5, "Protocol error: too big bulk count string", steps[i]);
    }
}

static void test_request_reader_takes_a_line_of_exactly_the_limit(void **state)
{
    (void)state;
    size_t limit = LIMITS.inline_bytes_max;
    uint8_t *stream = malloc(limit + 2);
    assert_non_null(stream);
    struct slice args[ARGS_ROOM];
    for (size_t over = 0; over < 2; over++) {
        memset(stream, 'A', limit + over);
        stream[limit + over] = '\n';
        struct request_reader reader;
        request_reader_init(&reader);
        size_t consumed = 0;

        enum reader_result result = request_reader_advance(&reader, stream, limit + over + 1,
                                                           &LIMITS, args, ARGS_ROOM, &consumed);

        assert_int_equal(result, over == 0 ? READER_REQUEST : READER_ERROR);
    }
    free(stream);
}

/* What redis-cli --pipe, a person at a terminal and a pipelining client may send, mixed. */
static const char MIXED[] =
    "\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\nx\r\n*2\r\n\0\xff\r\nPING\r\n\r\n"
    "*0\r\n  set \"a b\\x00\" 'c\\'d'\n*-1\r\n"
    "*2\r\n$4\r\nECHO\r\n$19\r\n\r\n*1\r\n$4\r\nPI\0\xfe\r\nZZZ\r\n\n*1\r\n$0\r\n\r\n"
    "*1\r\n$00000000000000000000000000001\r\n";
static const char MIXED_LOG[] =
    "[3:SET][1:k][9:x\r\n*2\r\n\0\xff]\n[4:PING]\n[3:set][4:a b\0][3:c'd]\n"
    "[4:ECHO][19:\r\n*1\r\n$4\r\nPI\0\xfe\r\nZZZ]\n[0:]\n!Protocol error: invalid bulk length";

static void test_request_reader_reads_the_same_at_every_split(void **state)
{
    (void)state;
    for (size_t split = 0; split < sizeof(MIXED); split++) {
        struct feed feed;
        feed_init(&feed);
        feed_bytes(&feed, MIXED, split);
        feed_bytes(&feed, MIXED + split, sizeof(MIXED) - 1 - split);
        assert_log(&feed, MIXED_LOG, sizeof(MIXED_LOG) - 1);
        feed_fini(&feed);
    }
}

static void test_request_reader_reads_the_same_byte_by_byte(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    for (size_t i = 0; i < sizeof(MIXED) - 1; i++) {
        feed_bytes(&feed, MIXED + i, 1);
    }
    assert_log(&feed, MIXED_LOG, sizeof(MIXED_LOG) - 1);
    feed_fini(&feed);
}

static void test_request_reader_reads_the_same_in_random_pieces(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, test_seed());
    for (int round = 0; round < 500; round++) {
        struct feed feed;
        feed_init(&feed);
        size_t at = 0;
        while (at < sizeof(MIXED) - 1) {
            size_t left = sizeof(MIXED) - 1 - at;
            size_t piece = 1 + random_below(&random, 12);
            piece = piece < left ? piece : left;
            feed_bytes(&feed, MIXED + at, piece);
            at += piece;
        }
        assert_log(&feed, MIXED_LOG, sizeof(MIXED_LOG) - 1);
        feed_fini(&feed);
    }
}

static void test_request_reader_is_idle_between_requests(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    assert_true(request_reader_idle(&feed.reader));
    feed_bytes(&feed, "\r\n", 2);
    assert_true(request_reader_idle(&feed.reader));
    feed_bytes(&feed, "*", 1);
    assert_false(request_reader_idle(&feed.reader));
    feed_bytes(&feed, "1\r\n$1\r\nx\r", 9);
    assert_false(request_reader_idle(&feed.reader));
    feed_bytes(&feed, "\n", 1);
    assert_true(request_reader_idle(&feed.reader));
    feed_fini(&feed);
}

static void test_request_reader_offers_a_long_bulk_and_waits_when_accepted(void **state)
{
    (void)state;
    size_t bulk = READER_BULK_BYTES_MIN;
    char text[64];
    size_t head =
        (size_t)snprintf(text, sizeof(text), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%zu\r\n", bulk);
    size_t total = head + bulk + 2;
    uint8_t *stream = malloc(total);
    assert_non_null(stream);
    memset(stream, 'v', total);
    memcpy(stream, text, head);
    memcpy(stream + total - 2, "\r\n", 2);
    struct request_reader reader;
    request_reader_init(&reader);
    struct slice args[ARGS_ROOM];
    size_t consumed = 0;

    assert_int_equal(
        request_reader_advance(&reader, stream, head, &LIMITS, args, ARGS_ROOM, &consumed),
        READER_BULK);
    assert_int_equal(consumed, head);
    assert_int_equal(reader.bulk_index, 2);
    assert_int_equal(reader.bulk_bytes, bulk);
    assert_true(slice_equal(args[1], slice_of_text("k")));
    assert_int_equal(
        request_reader_advance(&reader, stream, head, &LIMITS, args, ARGS_ROOM, &consumed),
        READER_BULK);
    request_reader_accept_bulk(&reader);
    assert_int_equal(request_reader_bytes_wanted(&reader), total);
    assert_int_equal(
        request_reader_advance(&reader, stream, total - 1, &LIMITS, args, ARGS_ROOM, &consumed),
        READER_MORE);
    assert_int_equal(
        request_reader_advance(&reader, stream, total, &LIMITS, args, ARGS_ROOM, &consumed),
        READER_REQUEST);
    assert_int_equal(consumed, total);
    assert_int_equal(reader.arg_count, 3);
    assert_ptr_equal(args[2].data, stream + head);
    assert_int_equal(args[2].length_bytes, bulk);
    free(stream);
}

static void test_request_reader_goes_on_behind_a_bulk_taken_by_the_caller(void **state)
{
    (void)state;
    /* Empty lines stand before the request, the payload lay partly in the buffer, another argument
     * and another request follow. */
    uint8_t stream[128];
    char head[] = "\r\n*0\r\n*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n";
    memcpy(stream, head, sizeof(head) - 1);
    memcpy(stream + sizeof(head) - 1, "vvvv", 4);
    struct request_reader reader;
    request_reader_init(&reader);
    struct slice args[ARGS_ROOM];
    size_t consumed = 0;
    assert_int_equal(request_reader_advance(&reader, stream, sizeof(head) - 1 + 4, &LIMITS, args,
                                            ARGS_ROOM, &consumed),
                     READER_BULK);
    assert_int_equal(consumed, sizeof(head) - 1);

    /* The four bytes are cut out, the other 19996 never come through the buffer. */
    char tail[] = "\r\n$2\r\nNX\r\nPING\r\n";
    uint8_t moved[128];
    memcpy(moved, head, sizeof(head) - 1);
    memset(stream, '?', sizeof(stream));
    request_reader_bulk_done(&reader);
    assert_int_equal(request_reader_advance(&reader, moved, sizeof(head) - 1, &LIMITS, args,
                                            ARGS_ROOM, &consumed),
                     READER_MORE);
    memcpy(moved + sizeof(head) - 1, tail, sizeof(tail) - 1);
    size_t total = sizeof(head) - 1 + sizeof(tail) - 1;
    assert_int_equal(
        request_reader_advance(&reader, moved, total, &LIMITS, args, ARGS_ROOM, &consumed),
        READER_REQUEST);

    assert_int_equal(consumed, total - 6);
    assert_int_equal(reader.arg_count, 4);
    assert_true(slice_equal(args[0], slice_of_text("SET")));
    assert_true(slice_equal(args[1], slice_of_text("k")));
    assert_null(args[2].data);
    assert_int_equal(args[2].length_bytes, 20000);
    assert_true(slice_equal(args[3], slice_of_text("NX")));
    assert_int_equal(
        request_reader_advance(&reader, moved + consumed, 6, &LIMITS, args, ARGS_ROOM, &consumed),
        READER_REQUEST);
    assert_true(slice_equal(args[0], slice_of_text("PING")));
}

static void test_request_reader_asks_for_room_as_arguments_arrive(void **state)
{
    (void)state;
    enum {
        COUNT = 1000
    };
    static uint8_t stream[16 + COUNT * 8];
    size_t length = (size_t)snprintf((char *)stream, sizeof(stream), "*%d\r\n", COUNT);
    for (int i = 0; i < COUNT; i++) {
        length += (size_t)snprintf((char *)stream + length, sizeof(stream) - length, "$1\r\n%c\r\n",
                                   'a' + i % 26);
    }
    struct request_reader reader;
    request_reader_init(&reader);
    uint32_t capacity = READER_ARGS_CAPACITY_MIN;
    struct slice *args = malloc(capacity * sizeof(*args));
    size_t consumed = 0;
    /* The header alone makes nobody grow. */
    assert_int_equal(request_reader_advance(&reader, stream, 9, &LIMITS, args, capacity, &consumed),
                     READER_MORE);
    enum reader_result result = READER_ARGS_FULL;
    uint32_t grown_count = 0;
    while ((result = request_reader_advance(&reader, stream, length, &LIMITS, args, capacity,
                                            &consumed)) == READER_ARGS_FULL) {
        assert_true(reader.args_wanted > capacity);
        assert_true(reader.args_wanted <= 2 * capacity);
        capacity = reader.args_wanted;
        args = realloc(args, capacity * sizeof(*args));
        assert_non_null(args);
        grown_count++;
    }
    assert_int_equal(result, READER_REQUEST);
    assert_int_equal(grown_count, 6);
    assert_int_equal(capacity, COUNT);
    assert_int_equal(reader.arg_count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(args[i].length_bytes, 1);
        assert_int_equal(args[i].data[0], 'a' + i % 26);
    }
    free(args);
}

static void test_request_reader_asks_for_room_for_an_inline_line(void **state)
{
    (void)state;
    uint8_t stream[] = "a 'b' c d e f g h i j k l m n o p \"q\"\r\n";
    struct request_reader reader;
    request_reader_init(&reader);
    struct slice args[17];
    size_t consumed = 0;
    assert_int_equal(
        request_reader_advance(&reader, stream, sizeof(stream) - 1, &LIMITS, args, 16, &consumed),
        READER_ARGS_FULL);
    assert_int_equal(reader.args_wanted, 17);
    assert_int_equal(
        request_reader_advance(&reader, stream, sizeof(stream) - 1, &LIMITS, args, 17, &consumed),
        READER_REQUEST);
    assert_int_equal(reader.arg_count, 17);
    assert_int_equal(consumed, sizeof(stream) - 1);
    assert_true(slice_equal(args[1], slice_of_text("b")));
    assert_true(slice_equal(args[16], slice_of_text("q")));
}

static void test_request_reader_limits_the_unauthenticated(void **state)
{
    (void)state;
    static const struct {
        const char *stream;
        enum reader_result result;
        const char *error;
    } cases[] = {
        {"*11\r\n", READER_ERROR, "Protocol error: unauthenticated multibulk length"},
        {"*10\r\n", READER_MORE, NULL},
        {"*2\r\n$3\r\nGET\r\n$16385\r\n", READER_ERROR,
         "Protocol error: unauthenticated bulk length"},
        {"*2\r\n$3\r\nGET\r\n$16384\r\n", READER_BULK, NULL},
        {"*x\r\n", READER_ERROR, "Protocol error: invalid multibulk length"},
        {"*1\r\n$x\r\n", READER_ERROR, "Protocol error: invalid bulk length"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct request_reader reader;
        request_reader_init(&reader);
        struct slice args[ARGS_ROOM];
        size_t consumed = 0;
        uint8_t stream[64];
        size_t length = strlen(cases[i].stream);
        memcpy(stream, cases[i].stream, length);
        assert_int_equal(request_reader_advance(&reader, stream, length,
                                                &READER_LIMITS_UNAUTHENTICATED, args, ARGS_ROOM,
                                                &consumed),
                         cases[i].result);
        if (cases[i].error != NULL) {
            assert_string_equal(reader.error, cases[i].error);
        }
    }
}

static void test_request_reader_wants_no_more_than_what_is_next(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    assert_true(request_reader_bytes_wanted(&feed.reader) <= 64);
    feed_bytes(&feed, "*2\r\n", 4);
    assert_true(request_reader_bytes_wanted(&feed.reader) > 4);
    assert_true(request_reader_bytes_wanted(&feed.reader) <= 4 + 64);
    feed_bytes(&feed, "$100\r\n", 6);
    assert_int_equal(request_reader_bytes_wanted(&feed.reader), 10 + 100 + 2);
    feed_fini(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_reader_reads_arrays_and_inline_lines),
        cmocka_unit_test(test_request_reader_skips_empty_requests),
        cmocka_unit_test(test_request_reader_unquotes_inline_arguments),
        cmocka_unit_test(test_request_reader_names_every_error),
        cmocka_unit_test(test_request_reader_keeps_requests_before_an_error),
        cmocka_unit_test(test_request_reader_stays_broken),
        cmocka_unit_test(test_request_reader_refuses_endless_lines),
        cmocka_unit_test(test_request_reader_takes_a_line_of_exactly_the_limit),
        cmocka_unit_test(test_request_reader_reads_the_same_at_every_split),
        cmocka_unit_test(test_request_reader_reads_the_same_byte_by_byte),
        cmocka_unit_test(test_request_reader_reads_the_same_in_random_pieces),
        cmocka_unit_test(test_request_reader_is_idle_between_requests),
        cmocka_unit_test(test_request_reader_offers_a_long_bulk_and_waits_when_accepted),
        cmocka_unit_test(test_request_reader_goes_on_behind_a_bulk_taken_by_the_caller),
        cmocka_unit_test(test_request_reader_asks_for_room_as_arguments_arrive),
        cmocka_unit_test(test_request_reader_asks_for_room_for_an_inline_line),
        cmocka_unit_test(test_request_reader_limits_the_unauthenticated),
        cmocka_unit_test(test_request_reader_wants_no_more_than_what_is_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

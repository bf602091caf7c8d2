/* Unit tests of proto/reply_reader. */
#include "proto/reply_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define LOG_BYTES_MAX 2048U

/* What a stream was read as: one line a token, "depth kind what", "." behind one that ends its
 * reply. */
struct feed {
    struct reply_reader reader;
    uint8_t *data; /* owned */
    size_t length_bytes;
    uint64_t bulk_left; /* of an open bulk, with its CRLF */
    char log[LOG_BYTES_MAX];
    size_t log_bytes;
    bool broken;
};

static void feed_init(struct feed *feed)
{
    memset(feed, 0, sizeof(*feed));
    reply_reader_init(&feed->reader);
}

static void feed_fini(struct feed *feed)
{
    free(feed->data);
    feed->data = NULL;
}

static void feed_log(struct feed *feed, const char *text, size_t length_bytes)
{
    assert_true(feed->log_bytes + length_bytes < LOG_BYTES_MAX);
    memcpy(feed->log + feed->log_bytes, text, length_bytes);
    feed->log_bytes += length_bytes;
}

static void feed_log_token(struct feed *feed, const struct reply_token *token)
{
    static const char *const names[] = {
        [REPLY_SIMPLE] = "simple",
        [REPLY_ERROR] = "error",
        [REPLY_INTEGER] = "integer",
        [REPLY_BULK] = "bulk",
        [REPLY_BULK_HEADER] = "header",
        [REPLY_NULL] = "null",
        [REPLY_BOOL] = "bool",
        [REPLY_DOUBLE] = "double",
        [REPLY_ARRAY] = "array",
        [REPLY_MAP] = "map",
        [REPLY_SET] = "set",
        [REPLY_PUSH] = "push",
    };
    char line[128];
    int length = snprintf(line, sizeof(line), "%u %s", token->depth, names[token->kind]);
    feed_log(feed, line, (size_t)length);
    if (token->kind == REPLY_INTEGER || token->kind == REPLY_BOOL) {
        length = snprintf(line, sizeof(line), " %lld", (long long)token->number);
        feed_log(feed, line, (size_t)length);
    } else if (token->kind >= REPLY_ARRAY || token->kind == REPLY_BULK_HEADER) {
        length = snprintf(line, sizeof(line), " %llu", (unsigned long long)token->count);
        feed_log(feed, line, (size_t)length);
    } else if (token->text.length_bytes > 0) {
        feed_log(feed, " ", 1);
        feed_log(feed, (const char *)token->text.data, token->text.length_bytes);
    }
    feed_log(feed, token->ends_reply ? ".\n" : "\n", token->ends_reply ? 2 : 1);
}

static void feed_drop(struct feed *feed, size_t length_bytes)
{
    assert_true(length_bytes <= feed->length_bytes);
    memmove(feed->data, feed->data + length_bytes, feed->length_bytes - length_bytes);
    feed->length_bytes -= length_bytes;
}

/* Takes what is there of an open bulk. False: more is to come. */
static bool feed_take_bulk(struct feed *feed)
{
    if (!feed->reader.bulk_open) {
        return true;
    }
    uint64_t part = feed->bulk_left < feed->length_bytes ? feed->bulk_left : feed->length_bytes;
    feed_drop(feed, part);
    feed->bulk_left -= part;
    if (feed->bulk_left > 0) {
        return false;
    }
    bool ends_reply = reply_reader_bulk_done(&feed->reader);
    feed_log(feed, ends_reply ? "taken.\n" : "taken\n", ends_reply ? 7 : 6);
    return true;
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
    while (!feed->broken && feed_take_bulk(feed)) {
        struct reply_token token;
        size_t consumed = 0;
        enum reply_result result =
            reply_reader_advance(&feed->reader, feed->data, feed->length_bytes, &token, &consumed);
        if (result == REPLY_MORE) {
            return;
        }
        if (result == REPLY_BROKEN) {
            feed_log(feed, "!", 1);
            feed_log(feed, feed->reader.error, strlen(feed->reader.error));
            feed->broken = true;
            return;
        }
        feed_log_token(feed, &token);
        feed_drop(feed, consumed);
        feed->bulk_left = token.count + 2;
    }
}

static void assert_log(const struct feed *feed, const char *expected, size_t length_bytes)
{
    assert_int_equal(feed->log_bytes, length_bytes);
    assert_memory_equal(feed->log, expected, length_bytes);
}

#define ASSERT_READS(stream, expected)                        \
    do {                                                      \
        struct feed feed_;                                    \
        feed_init(&feed_);                                    \
        feed_bytes(&feed_, (stream), sizeof(stream) - 1);     \
        assert_log(&feed_, (expected), sizeof(expected) - 1); \
        feed_fini(&feed_);                                    \
    } while (0)

static void test_reply_reader_reads_values(void **state)
{
    (void)state;
    ASSERT_READS("+OK\r\n", "0 simple OK.\n");
    ASSERT_READS("+\r\n", "0 simple.\n");
    ASSERT_READS("-ERR no such\r\n", "0 error ERR no such.\n");
    ASSERT_READS(":-12\r\n", "0 integer -12.\n");
    ASSERT_READS("$5\r\na\r\n\0b\r\n", "0 bulk a\r\n\0b.\n");
    ASSERT_READS("$0\r\n\r\n", "0 bulk.\n");
    ASSERT_READS("$-1\r\n*-1\r\n_\r\n", "0 null.\n0 null.\n0 null.\n");
    ASSERT_READS("#t\r\n#f\r\n", "0 bool 1.\n0 bool 0.\n");
    ASSERT_READS(",1.5\r\n(123456789012345678901\r\n",
                 "0 double 1.5.\n0 bulk 123456789012345678901.\n");
    ASSERT_READS("=8\r\ntxt:abcd\r\n!5\r\nERR x\r\n", "0 bulk abcd.\n0 error ERR x.\n");
}

static void test_reply_reader_follows_nesting(void **state)
{
    (void)state;
    ASSERT_READS("*2\r\n*1\r\n:1\r\n%2\r\n+a\r\n*0\r\n+b\r\n~1\r\n_\r\n+next\r\n",
                 "0 array 2\n1 array 1\n2 integer 1\n1 map 2\n2 simple a\n2 array 0\n2 simple b\n"
                 "2 set 1\n3 null.\n0 simple next.\n");
    ASSERT_READS("%0\r\n>2\r\n+invalidate\r\n*0\r\n:1\r\n",
                 "0 map 0.\n0 push 2\n1 simple invalidate\n1 array 0.\n0 integer 1.\n");
}

static void test_reply_reader_announces_a_long_bulk(void **state)
{
    (void)state;
    enum {
        BULK = REPLY_BULK_BYTES_MIN
    };
    static char stream[2 * BULK + 64];
    size_t length = (size_t)snprintf(stream, sizeof(stream), "*2\r\n$%d\r\n", BULK);
    memset(stream + length, 'x', BULK);
    length += BULK;
    length += (size_t)snprintf(stream + length, sizeof(stream) - length, "\r\n$%d\r\n", BULK);
    memset(stream + length, 'y', BULK);
    length += BULK;
    memcpy(stream + length, "\r\n+z\r\n", 6);
    length += 6;
    for (size_t split = 0; split < length; split += 7) {
        struct feed feed;
        feed_init(&feed);
        feed_bytes(&feed, stream, split);
        feed_bytes(&feed, stream + split, length - split);
        static const char expected[] =
            "0 array 2\n1 header 4096\ntaken\n1 header 4096\ntaken.\n0 simple z.\n";
        assert_log(&feed, expected, sizeof(expected) - 1);
        feed_fini(&feed);
    }
    /* One byte less is given whole. */
    struct reply_reader reader;
    reply_reader_init(&reader);
    length = (size_t)snprintf(stream, sizeof(stream), "$%d\r\n", BULK - 1);
    memset(stream + length, 'x', BULK - 1);
    memcpy(stream + length + BULK - 1, "\r\n", 2);
    struct reply_token token;
    size_t consumed = 0;
    assert_int_equal(
        reply_reader_advance(&reader, (uint8_t *)stream, length + BULK + 1, &token, &consumed),
        REPLY_TOKEN);
    assert_int_equal(token.kind, REPLY_BULK);
    assert_int_equal(token.text.length_bytes, BULK - 1);
    assert_int_equal(consumed, length + BULK + 1);
}

static const char MIXED[] =
    "+OK\r\n*3\r\n$3\r\na\rb\r\n:7\r\n*2\r\n_\r\n$-1\r\n%1\r\n=7\r\ntxt:\r\n\n"
    "\r\n,inf\r\n>1\r\n+p\r\n-ERR x\r\n*0\r\n#x\r\n";
static const char MIXED_LOG[] =
    "0 simple OK.\n0 array 3\n1 bulk a\rb\n1 integer 7\n1 array 2\n2 null\n2 null.\n"
    "0 map 1\n1 bulk \r\n\n\n1 double inf.\n0 push 1\n1 simple p.\n0 error ERR x.\n0 array 0.\n"
    "!invalid boolean";

static void test_reply_reader_reads_the_same_at_every_split(void **state)
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

static void test_reply_reader_reads_the_same_byte_by_byte(void **state)
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

static void test_reply_reader_refuses_what_is_not_the_protocol(void **state)
{
    (void)state;
    ASSERT_READS("x\r\n", "!unknown type of reply");
    ASSERT_READS("|1\r\n", "!unknown type of reply");
    ASSERT_READS("\r\n", "!line without its end");
    ASSERT_READS("+a\rb", "!line without its end");
    ASSERT_READS(":1x\r\n", "!invalid integer");
    ASSERT_READS(":\r\n", "!invalid integer");
    ASSERT_READS(":9223372036854775808\r\n", "!invalid integer");
    ASSERT_READS("$-2\r\n", "!invalid bulk length");
    ASSERT_READS("$?\r\n", "!invalid bulk length");
    ASSERT_READS("$1\r\nabc\r\n", "!bulk without its end");
    ASSERT_READS("=-1\r\n", "!invalid bulk length");
    ASSERT_READS("=3\r\ntxt\r\n", "!verbatim string without its format");
    ASSERT_READS("=5\r\nabcde\r\n", "!verbatim string without its format");
    ASSERT_READS("=99999999\r\n", "!text too long");
    ASSERT_READS("!99999999\r\n", "!text too long");
    ASSERT_READS("*-2\r\n", "!invalid count of elements");
    ASSERT_READS("%-1\r\n", "!invalid count of elements");
    ASSERT_READS("*4294967296\r\n", "!invalid count of elements");
    ASSERT_READS("#\r\n", "!invalid boolean");
    ASSERT_READS("_x\r\n", "!invalid null");
    ASSERT_READS("*1\r\n>1\r\n", "0 array 1\n!push inside a reply");
}

static void test_reply_reader_bounds_the_nesting(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    for (int i = 0; i < REPLY_DEPTH_MAX; i++) {
        feed_bytes(&feed, "*1\r\n", 4);
    }
    assert_false(feed.broken);
    feed_bytes(&feed, "*1\r\n", 4);
    assert_true(feed.broken);
    assert_string_equal(feed.reader.error, "nested too deep");
    feed_fini(&feed);
    /* A value, or an empty aggregate, still fits at the bottom. */
    feed_init(&feed);
    for (int i = 0; i < REPLY_DEPTH_MAX; i++) {
        feed_bytes(&feed, "*1\r\n", 4);
    }
    feed_bytes(&feed, "*0\r\n", 4);
    assert_false(feed.broken);
    assert_int_equal(feed.reader.depth, 0);
    feed_fini(&feed);
}

static void test_reply_reader_refuses_an_endless_line(void **state)
{
    (void)state;
    size_t limit = 64U << 10;
    uint8_t *stream = malloc(limit + 8);
    assert_non_null(stream);
    memset(stream, 'x', limit + 8);
    stream[0] = '+';
    static const size_t steps[] = {1, 1000, 70000};
    for (size_t i = 0; i < ARRAY_COUNT(steps); i++) {
        struct reply_reader reader;
        reply_reader_init(&reader);
        struct reply_token token;
        size_t consumed = 0;
        size_t given = 0;
        enum reply_result result = REPLY_MORE;
        while (result == REPLY_MORE && given < limit + 8) {
            given = given + steps[i] < limit + 8 ? given + steps[i] : limit + 8;
            result = reply_reader_advance(&reader, stream, given, &token, &consumed);
        }
        assert_int_equal(result, REPLY_BROKEN);
        assert_string_equal(reader.error, "line too long");
        assert_true(given >= limit);
    }
    free(stream);
}

static void test_reply_reader_stays_broken(void **state)
{
    (void)state;
    struct feed feed;
    feed_init(&feed);
    feed_bytes(&feed, "x\r\n", 3);
    struct reply_token token;
    size_t consumed = 0;

    enum reply_result result =
        reply_reader_advance(&feed.reader, (const uint8_t *)"+OK\r\n", 5, &token, &consumed);

    assert_int_equal(result, REPLY_BROKEN);
    feed_fini(&feed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reply_reader_reads_values),
        cmocka_unit_test(test_reply_reader_follows_nesting),
        cmocka_unit_test(test_reply_reader_announces_a_long_bulk),
        cmocka_unit_test(test_reply_reader_reads_the_same_at_every_split),
        cmocka_unit_test(test_reply_reader_reads_the_same_byte_by_byte),
        cmocka_unit_test(test_reply_reader_refuses_what_is_not_the_protocol),
        cmocka_unit_test(test_reply_reader_bounds_the_nesting),
        cmocka_unit_test(test_reply_reader_refuses_an_endless_line),
        cmocka_unit_test(test_reply_reader_stays_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_output – what a connection sends: text, values from where they lie and descriptors come in order
 * through a socket that takes little at a time, and every pin comes back once. */

#include "net/output.h"

#include "base/random.h"
#include "mem/runs.h"
#include "test_seed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PAGE_BYTES   (2U << 20)
#define PAGES        8U
#define VALUES       6U
#define STREAM_BYTES (64U << 20)
#define SHARD        3U

struct value {
    struct layout layout;
    size_t length_bytes;
    uint8_t *copy; /* owned: the same bytes in one piece */
    unsigned pins;
    unsigned released;
};

struct fixture {
    struct region *region; /* owned */
    struct pages *pages;   /* owned */
    struct runs *runs;     /* owned */
    struct chunk_pool pool;
    struct output output;
    struct value values[VALUES];
    int ends[2]; /* owned sockets: we send by 0, the peer reads by 1 */
    struct wire wire;
    uint8_t *expected; /* owned: all that was added */
    size_t expected_bytes;
    uint8_t *received; /* owned */
    size_t received_bytes;
};

static void fill(struct fixture *fixture, struct value *value, struct random *random)
{
    struct layout_cursor cursor;
    size_t done = 0;
    assert_int_equal(layout_take(fixture->runs, value->length_bytes, &value->layout), KVASIR_OK);
    value->copy = malloc(value->length_bytes + 1);
    assert_non_null(value->copy);
    for (size_t i = 0; i < value->length_bytes; i++) {
        value->copy[i] = (uint8_t)random_u64(random);
    }
    layout_cursor_init(&cursor, fixture->pages, &value->layout, value->length_bytes);
    while (done < value->length_bytes) {
        struct iovec piece = layout_cursor_peek(&cursor);
        memcpy(piece.iov_base, value->copy + done, piece.iov_len);
        done += piece.iov_len;
        layout_cursor_skip(&cursor, piece.iov_len);
    }
}

static int setup(void **state)
{
    static const size_t lengths[VALUES] = {0, 1, 5000, 70000, PAGE_BYTES, 2 * PAGE_BYTES + 777};
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char error[256] = "";
    const struct region_config config = {.name = "test", .size_bytes = PAGES * PAGE_BYTES};
    struct random random;
    int small = 8192;
    random_init(&random, 1);
    assert_non_null(fixture);
    assert_int_equal(region_create(&config, error, sizeof(error), &fixture->region), KVASIR_OK);
    fixture->pages = pages_create(fixture->region, PAGE_BYTES, 64);
    assert_non_null(fixture->pages);
    fixture->runs = runs_create(fixture->pages);
    assert_non_null(fixture->runs);
    for (size_t i = 0; i < VALUES; i++) {
        fixture->values[i].length_bytes = lengths[i];
        fill(fixture, &fixture->values[i], &random);
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fixture->ends), 0);
    wire_init(&fixture->wire, fixture->ends[0]);
    assert_int_equal(setsockopt(fixture->ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    fixture->expected = malloc(STREAM_BYTES);
    fixture->received = malloc(STREAM_BYTES);
    assert_non_null(fixture->expected);
    assert_non_null(fixture->received);
    chunk_pool_init(&fixture->pool, 0, 200);
    output_init(&fixture->output, &fixture->pool);
    *state = fixture;
    return 0;
}

static void release(void *argument, uint32_t shard, void *pin)
{
    struct value *value = pin;
    (void)argument;
    assert_int_equal(shard, SHARD);
    value->released++;
    assert_true(value->released <= value->pins);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    output_fini(&fixture->output, release, fixture);
    for (size_t i = 0; i < VALUES; i++) {
        struct value *value = &fixture->values[i];
        assert_int_equal(value->released, value->pins);
        layout_give(fixture->runs, value->length_bytes, &value->layout);
        free(value->copy);
    }
    chunk_pool_fini(&fixture->pool);
    runs_destroy(&fixture->runs);
    pages_destroy(&fixture->pages);
    region_destroy(&fixture->region);
    (void)close(fixture->ends[0]);
    (void)close(fixture->ends[1]);
    free(fixture->expected);
    free(fixture->received);
    free(fixture);
    return 0;
}

static void expect(struct fixture *fixture, const void *bytes, size_t length)
{
    assert_true(fixture->expected_bytes + length <= STREAM_BYTES);
    memcpy(fixture->expected + fixture->expected_bytes, bytes, length);
    fixture->expected_bytes += length;
}

static void add_text(struct fixture *fixture, const void *text, size_t length)
{
    output_text(&fixture->output, text, length);
    expect(fixture, text, length);
}

/* From offset on; true: taken. */
static bool add_value(struct fixture *fixture, struct value *value, size_t offset, size_t length)
{
    struct layout_cursor cursor;
    layout_cursor_init(&cursor, fixture->pages, &value->layout, value->length_bytes);
    layout_cursor_skip(&cursor, offset);
    if (!output_value(&fixture->output, &cursor, length, SHARD, value)) {
        return false;
    }
    value->pins++;
    expect(fixture, value->copy + offset, length);
    return true;
}

static void read_some(struct fixture *fixture, size_t length)
{
    ssize_t got = read(fixture->ends[1], fixture->received + fixture->received_bytes, length);
    if (got > 0) {
        fixture->received_bytes += (size_t)got;
    } else {
        assert_int_equal(errno, EAGAIN);
    }
}

static void flush_all(struct fixture *fixture)
{
    while (fixture->output.pending_bytes > 0) {
        uint64_t sent = 0;
        enum kvasir_status status =
            output_flush(&fixture->output, &fixture->wire, 100000, release, fixture, &sent);
        assert_true(status == KVASIR_OK || status == KVASIR_AGAIN);
        assert_true(sent <= 100000 + PAGE_BYTES);
        read_some(fixture, 1U << 16);
    }
    while (fixture->received_bytes < fixture->expected_bytes) {
        read_some(fixture, 1U << 16);
    }
    assert_int_equal(fixture->received_bytes, fixture->expected_bytes);
    assert_memory_equal(fixture->received, fixture->expected, fixture->expected_bytes);
}

static void test_output_sends_in_order(void **state)
{
    struct fixture *fixture = *state;
    add_text(fixture, "first", 5);
    assert_true(add_value(fixture, &fixture->values[5], 0, fixture->values[5].length_bytes));
    add_text(fixture, "between", 7);
    assert_true(add_value(fixture, &fixture->values[3], 1000, 500));
    assert_true(add_value(fixture, &fixture->values[1], 0, 1));
    add_text(fixture, "last", 4);
    assert_int_equal(fixture->output.pending_bytes, fixture->expected_bytes);
    assert_int_equal(fixture->output.value_count, 3);
    flush_all(fixture);
    assert_int_equal(fixture->output.value_count, 0);
    assert_int_equal(fixture->values[5].released, 1);
    assert_int_equal(fixture->pool.taken_count, 0);
}

static void test_output_random_mix_arrives(void **state)
{
    struct fixture *fixture = *state;
    struct random random;
    static uint8_t text[40000];
    random_init(&random, test_seed());
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (uint8_t)random_u64(&random);
    }
    for (int i = 0; i < 400 && fixture->expected_bytes < STREAM_BYTES / 2; i++) {
        uint64_t choice = random_below(&random, 10);
        if (choice < 4) {
            add_text(fixture, text, random_below(&random, 300));
        } else if (choice < 5) {
            add_text(fixture, text, random_below(&random, sizeof(text)));
        } else if (choice < 8) {
            struct value *value = &fixture->values[random_below(&random, VALUES)];
            size_t offset = random_below(&random, value->length_bytes + 1);
            (void)add_value(fixture, value, offset,
                            random_below(&random, value->length_bytes - offset + 1));
        } else {
            uint64_t sent = 0;
            enum kvasir_status status =
                output_flush(&fixture->output, &fixture->wire, random_below(&random, 300000) + 1,
                             release, fixture, &sent);
            assert_true(status == KVASIR_OK || status == KVASIR_AGAIN);
            read_some(fixture, random_below(&random, 100000) + 1);
        }
        assert_false(fixture->output.failed);
    }
    flush_all(fixture);
}

static void test_output_reserved_text_is_committed_in_part(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < 100; i++) {
        uint8_t *room = output_reserve(&fixture->output, OUTPUT_RESERVE_BYTES_MAX);
        assert_non_null(room);
        memset(room, 'a' + (int)(i % 26), OUTPUT_RESERVE_BYTES_MAX);
        expect(fixture, room, i * 10);
        output_commit(&fixture->output, i * 10);
    }
    flush_all(fixture);
}

static void test_output_descriptors_travel_with_the_next_byte(void **state)
{
    struct fixture *fixture = *state;
    const int descriptors[OUTPUT_DESCRIPTOR_COUNT] = {fixture->ends[0], fixture->ends[1]};
    char control[CMSG_SPACE(sizeof(descriptors))];
    uint8_t byte[16];
    uint64_t sent = 0;
    add_text(fixture, "before", 6);
    assert_true(output_descriptors(&fixture->output, descriptors));
    add_text(fixture, "after", 5);
    while (fixture->output.pending_bytes > 0) {
        assert_int_equal(
            output_flush(&fixture->output, &fixture->wire, 1U << 20, release, fixture, &sent),
            KVASIR_OK);
    }
    size_t seen = 0;
    size_t with_descriptors = SIZE_MAX;
    while (seen < 11) {
        struct iovec piece = {.iov_base = byte, .iov_len = 1};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        assert_int_equal(recvmsg(fixture->ends[1], &message, 0), 1);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header != NULL) {
            int got[OUTPUT_DESCRIPTOR_COUNT];
            assert_int_equal(header->cmsg_len, CMSG_LEN(sizeof(got)));
            memcpy(got, CMSG_DATA(header), sizeof(got));
            (void)close(got[0]);
            (void)close(got[1]);
            with_descriptors = seen;
        }
        assert_int_equal(byte[0], "beforeafter"[seen]);
        seen++;
    }
    assert_int_equal(with_descriptors, 6);
}

static void test_output_fails_when_the_pool_is_exhausted(void **state)
{
    struct fixture *fixture = *state;
    static uint8_t text[CHUNK_BYTES];
    struct layout_cursor cursor;
    fixture->pool.count_max = 3;
    for (int i = 0; i < 10; i++) {
        output_text(&fixture->output, text, sizeof(text));
    }
    assert_true(fixture->output.failed);
    assert_int_equal(fixture->pool.taken_count, 3);
    assert_null(output_reserve(&fixture->output, 10));
    layout_cursor_init(&cursor, fixture->pages, &fixture->values[3].layout, 70000);
    if (output_value(&fixture->output, &cursor, 70000, SHARD, &fixture->values[3])) {
        fixture->values[3].pins++; /* it found room behind the last text */
    }
}

static void test_output_to_a_closed_peer(void **state)
{
    struct fixture *fixture = *state;
    uint64_t sent = 0;
    assert_true(add_value(fixture, &fixture->values[5], 0, fixture->values[5].length_bytes));
    assert_int_equal(shutdown(fixture->ends[1], SHUT_RD), 0);
    assert_int_equal(
        output_flush(&fixture->output, &fixture->wire, 1U << 20, release, fixture, &sent),
        KVASIR_CLOSED);
    assert_int_equal(fixture->values[5].released, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_output_sends_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_output_random_mix_arrives, setup, teardown),
        cmocka_unit_test_setup_teardown(test_output_reserved_text_is_committed_in_part, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_output_descriptors_travel_with_the_next_byte, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_output_fails_when_the_pool_is_exhausted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_output_to_a_closed_peer, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_byte_ring – a stream of bytes through shared memory: order, bounds, a peer that lies, and two
 * threads that sleep and ring. */

#include "base/byte_ring.h"
#include "base/compiler.h"
#include "base/random.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test_seed.h"

#define CAPACITY     4096U
#define STREAM_BYTES (1U << 21)

struct pair {
    uint8_t *memory;
    struct byte_ring writer;
    struct byte_ring reader;
};

static int set_up(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));
    pair->memory = mmap(NULL, BYTE_RING_BYTES(CAPACITY), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    byte_ring_attach(&pair->writer, pair->memory, CAPACITY);
    byte_ring_attach(&pair->reader, pair->memory, CAPACITY);
    *state = pair;
    return pair->memory == MAP_FAILED;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;
    (void)munmap(pair->memory, BYTE_RING_BYTES(CAPACITY));
    free(pair);
    return 0;
}

static ssize_t write_bytes(struct byte_ring *ring, const void *bytes, size_t length)
{
    struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    return byte_ring_write(ring, &piece, 1);
}

static ssize_t read_bytes(struct byte_ring *ring, void *bytes, size_t length)
{
    struct iovec piece = {.iov_base = bytes, .iov_len = length};
    return byte_ring_read(ring, &piece, 1);
}

static void test_byte_ring_gathers_and_scatters(void **state)
{
    struct pair *pair = *state;
    char text[] = "abcdef";
    char got[7] = {0};
    struct iovec from[] = {{text, 1}, {NULL, 0}, {text + 1, 5}};
    struct iovec to[] = {{got, 2}, {got + 2, 3}, {got + 5, 2}};
    assert_false(byte_ring_has_bytes(&pair->reader));
    assert_int_equal(read_bytes(&pair->reader, got, 1), 0);
    assert_int_equal(byte_ring_write(&pair->writer, from, 3), 6);
    assert_true(byte_ring_has_bytes(&pair->reader));
    assert_int_equal(byte_ring_read(&pair->reader, to, 3), 6);
    assert_string_equal(got, "abcdef");
    assert_false(byte_ring_has_bytes(&pair->reader));
}

static void test_byte_ring_full_takes_what_fits(void **state)
{
    struct pair *pair = *state;
    uint8_t bytes[CAPACITY] = {0};
    assert_int_equal(write_bytes(&pair->writer, bytes, CAPACITY - 1), CAPACITY - 1);
    assert_true(byte_ring_has_room(&pair->writer));
    assert_int_equal(write_bytes(&pair->writer, "xy", 2), 1);
    assert_false(byte_ring_has_room(&pair->writer));
    assert_int_equal(write_bytes(&pair->writer, "y", 1), 0);
    assert_int_equal(read_bytes(&pair->reader, bytes, CAPACITY), CAPACITY);
    assert_int_equal(bytes[CAPACITY - 1], 'x');
}

static void test_byte_ring_goes_round_past_two_to_the_32(void **state)
{
    struct pair *pair = *state;
    struct random random;
    uint8_t in[CAPACITY], out[CAPACITY];
    random_init(&random, test_seed());
    /* Both begin shortly before their counts overflow. */
    uint32_t start = UINT32_MAX - 3 * CAPACITY;
    pair->writer.position = start;
    pair->reader.position = start;
    memcpy(pair->memory, &start, sizeof(start));                    /* written */
    memcpy(pair->memory + CACHE_LINE_BYTES, &start, sizeof(start)); /* read */
    for (int i = 0; i < 200; i++) {
        size_t length = random_below(&random, CAPACITY) + 1;
        for (size_t j = 0; j < length; j++) {
            in[j] = (uint8_t)random_u64(&random);
        }
        assert_int_equal(write_bytes(&pair->writer, in, length), length);
        assert_int_equal(read_bytes(&pair->reader, out, sizeof(out)), length);
        assert_memory_equal(in, out, length);
    }
}

static void test_byte_ring_notices_positions_that_cannot_be(void **state)
{
    struct pair *pair = *state;
    uint8_t bytes[16] = {0};
    uint32_t lie = CAPACITY + 1;
    memcpy(pair->memory, &lie, sizeof(lie)); /* more written than fits */
    assert_int_equal(read_bytes(&pair->reader, bytes, sizeof(bytes)), -1);
    lie = 1; /* read what was never written */
    memcpy(pair->memory + CACHE_LINE_BYTES, &lie, sizeof(lie));
    assert_int_equal(write_bytes(&pair->writer, bytes, sizeof(bytes)), -1);
}

static void test_byte_ring_asks_for_the_bell_only_when_needed(void **state)
{
    struct pair *pair = *state;
    uint8_t bytes[CAPACITY] = {0};
    assert_true(byte_ring_sleep_for_bytes(&pair->reader));
    assert_int_equal(write_bytes(&pair->writer, "a", 1), 1);
    assert_true(byte_ring_bell_for_bytes(&pair->writer));
    assert_false(byte_ring_bell_for_bytes(&pair->writer));
    assert_false(byte_ring_sleep_for_bytes(&pair->reader));
    assert_false(byte_ring_bell_for_bytes(&pair->writer));
    assert_false(byte_ring_sleep_for_room(&pair->writer));
    assert_int_equal(write_bytes(&pair->writer, bytes, CAPACITY), CAPACITY - 1);
    assert_true(byte_ring_sleep_for_room(&pair->writer));
    assert_int_equal(read_bytes(&pair->reader, bytes, 1), 1);
    assert_true(byte_ring_bell_for_room(&pair->reader));
    assert_false(byte_ring_bell_for_room(&pair->reader));
}

struct crossing {
    struct pair *pair;
    sem_t reader_bell, writer_bell;
};

/* The bytes of the stream, by place. */
static uint8_t byte_at(size_t place)
{
    return (uint8_t)(place * 2654435761U >> 13);
}

static void *produce(void *argument)
{
    struct crossing *crossing = argument;
    struct byte_ring *ring = &crossing->pair->writer;
    uint8_t bytes[700];
    size_t done = 0;
    while (done < STREAM_BYTES) {
        size_t length = done % sizeof(bytes) + 1;
        ssize_t got;
        length = length < STREAM_BYTES - done ? length : STREAM_BYTES - done;
        for (size_t i = 0; i < length; i++) {
            bytes[i] = byte_at(done + i);
        }
        got = write_bytes(ring, bytes, length);
        assert_true(got >= 0);
        done += (size_t)got;
        if (byte_ring_bell_for_bytes(ring)) {
            (void)sem_post(&crossing->reader_bell);
        }
        if (got == 0 && byte_ring_sleep_for_room(ring)) {
            (void)sem_wait(&crossing->writer_bell);
        }
    }
    return NULL;
}

static void test_byte_ring_two_threads_never_miss_a_bell(void **state)
{
    struct crossing crossing = {.pair = *state};
    struct byte_ring *ring = &crossing.pair->reader;
    pthread_t thread;
    uint8_t bytes[CAPACITY];
    size_t done = 0;
    (void)sem_init(&crossing.reader_bell, 0, 0);
    (void)sem_init(&crossing.writer_bell, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, produce, &crossing), 0);
    while (done < STREAM_BYTES) {
        ssize_t got = read_bytes(ring, bytes, done % sizeof(bytes) + 1);
        assert_true(got >= 0);
        for (ssize_t i = 0; i < got; i++) {
            assert_int_equal(bytes[i], byte_at(done + (size_t)i));
        }
        done += (size_t)got;
        if (byte_ring_bell_for_room(ring)) {
            (void)sem_post(&crossing.writer_bell);
        }
        if (got == 0 && byte_ring_sleep_for_bytes(ring)) {
            (void)sem_wait(&crossing.reader_bell);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)sem_destroy(&crossing.reader_bell);
    (void)sem_destroy(&crossing.writer_bell);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_byte_ring_gathers_and_scatters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_byte_ring_full_takes_what_fits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_byte_ring_goes_round_past_two_to_the_32, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_byte_ring_notices_positions_that_cannot_be, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_byte_ring_asks_for_the_bell_only_when_needed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_byte_ring_two_threads_never_miss_a_bell, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_slot – the slot of a key as Redis Cluster computes it, and the slots of a reactor. */

#include "route/slot.h"

#include <stdbool.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint16_t slot_of(const char *key)
{
    return slot_of_key(slice_of_text(key));
}

static void test_slot_is_the_published_crc(void **state)
{
    (void)state;
    /* The specification's check value: CRC16 of this key is 0x31C3. */
    assert_int_equal(slot_of("123456789"), 0x31c3 % SLOT_COUNT);
    assert_int_equal(slot_of("foo"), 12182);
    assert_int_equal(slot_of(""), 0);
    assert_int_equal(slot_of_key(slice_of(NULL, 0)), 0);
}

/* The polynomial x^16 + x^12 + x^5 + 1, one bit after the other. */
static uint16_t crc_by_bits(const uint8_t *bytes, size_t length_bytes)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < length_bytes; i++) {
        crc = (uint16_t)(crc ^ bytes[i] << 8);
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (uint16_t)(crc << 1 ^ ((crc & 0x8000) != 0 ? 0x1021 : 0));
        }
    }
    return crc;
}

static void test_slot_of_any_length_is_the_sum_by_bits(void **state)
{
    (void)state;
    uint8_t key[259];
    uint32_t noise = 1;
    for (unsigned round = 0; round < 64; round++) {
        for (size_t i = 0; i < sizeof(key); i++) {
            noise = noise * 1664525 + 1013904223;
            key[i] = (uint8_t)(noise >> 24);
            key[i] = key[i] == '{' ? 'x' : key[i]; /* no tags */
        }
        for (size_t length = 0; length <= sizeof(key); length++) {
            assert_int_equal(slot_of_key(slice_of(key, length)),
                             crc_by_bits(key, length) % SLOT_COUNT);
        }
    }
}

static void test_slot_of_a_tagged_key_is_its_tags(void **state)
{
    (void)state;
    assert_int_equal(slot_of("{user1000}.following"), slot_of("user1000"));
    assert_int_equal(slot_of("foo{bar}{zap}"), slot_of("bar"));
    assert_int_equal(slot_of("foo{{bar}}zap"), slot_of("{bar"));
}

static void test_slot_of_a_broken_tag_is_the_whole_keys(void **state)
{
    (void)state;
    /* Computed by another implementation (Python's binascii.crc_hqx). */
    assert_int_equal(slot_of("foo{}{bar}"), 8363);
    assert_int_equal(slot_of("foo{bar"), 15278);
    assert_int_equal(slot_of("foo}{"), 8134);
}

static void test_slot_reads_no_byte_past_the_key(void **state)
{
    (void)state;
    assert_int_equal(slot_of_key(slice_of("foo}", 3)), slot_of("foo"));
    assert_int_equal(slot_of_key(slice_of("{foo}", 4)), 13308);
}

static void test_slot_ranges_of_reactors_are_contiguous_and_even(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 7, 64, 100};
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        uint32_t reactor = 0;
        uint32_t slot_count = 0;
        for (uint32_t slot = 0; slot < SLOT_COUNT; slot++) {
            uint32_t owner = slot_reactor((uint16_t)slot, counts[c]);
            if (owner != reactor) {
                assert_int_equal(owner, reactor + 1);
                assert_in_range(slot_count, SLOT_COUNT / counts[c], SLOT_COUNT / counts[c] + 1);
                reactor = owner;
                slot_count = 0;
            }
            slot_count++;
        }
        assert_int_equal(reactor, counts[c] - 1);
        assert_in_range(slot_count, SLOT_COUNT / counts[c], SLOT_COUNT / counts[c] + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slot_is_the_published_crc),
        cmocka_unit_test(test_slot_of_any_length_is_the_sum_by_bits),
        cmocka_unit_test(test_slot_of_a_tagged_key_is_its_tags),
        cmocka_unit_test(test_slot_of_a_broken_tag_is_the_whole_keys),
        cmocka_unit_test(test_slot_reads_no_byte_past_the_key),
        cmocka_unit_test(test_slot_ranges_of_reactors_are_contiguous_and_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "proto/link_word.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static const struct kvasir_link_address example = {
    .device = "mlx5_0",
    .layer = KVASIR_LAYER_INFINIBAND,
    .queue_pair = 0xabcdef,
    .packet_sequence = 17,
    .lid = 65535,
    .mtu_bytes = 1024,
    .rd_atomic = 16,
    .gid = {.index = 3,
            .type = KVASIR_GID_ROCE_V1,
            .raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}},
};

static void test_link_word_address_comes_back_whole(void **state)
{
    struct kvasir_link_address copy = {0};
    char text[KVASIR_DEVICE_NAME_BYTES];
    (void)state;
    for (unsigned i = 0; i < LINK_WORD_COUNT; i++) {
        enum link_word word = link_word_find(slice_of_text(link_word_name((enum link_word)i)));
        assert_int_equal(word, i);
        if (link_word_is_number(word)) {
            assert_true(link_word_set_number(&copy, word, link_word_number(&example, word)));
        } else {
            link_word_text(&example, word, text);
            assert_true(link_word_set_text(&copy, word, slice_of_text(text)));
        }
    }
    assert_memory_equal(&copy, &example, sizeof(copy));
}

static void test_link_word_gid_is_written_as_an_address(void **state)
{
    char text[LINK_WORD_GID_BYTES];
    (void)state;
    link_word_format_gid(&example.gid, text);
    assert_string_equal(text, "::ffff:10.0.0.1");
}

static void test_link_word_names_are_found_in_any_case(void **state)
{
    (void)state;
    assert_int_equal(link_word_find(slice_of_text("Rd_Atomic")), LINK_WORD_RD_ATOMIC);
    assert_int_equal(link_word_find(slice_of_text("speed")), LINK_WORD_COUNT);
    assert_int_equal(link_word_find(slice_of(NULL, 0)), LINK_WORD_COUNT);
}

static void test_link_word_numbers_out_of_range_are_refused(void **state)
{
    static const struct {
        enum link_word word;
        uint64_t number;
        bool taken;
    } rows[] = {
        {LINK_WORD_QPN, 0xffffff, true},
        {LINK_WORD_QPN, 0x1000000, false},
        {LINK_WORD_PSN, 0x1000000, false},
        {LINK_WORD_LID, 0x10000, false},
        {LINK_WORD_MTU, 256, true},
        {LINK_WORD_MTU, 4096, true},
        {LINK_WORD_MTU, 128, false},
        {LINK_WORD_MTU, 3000, false},
        {LINK_WORD_MTU, 8192, false},
        {LINK_WORD_RD_ATOMIC, 256, false},
        {LINK_WORD_GID_INDEX, 1ULL << 32, false},
        {LINK_WORD_GID, 1, false},
    };
    struct kvasir_link_address address = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(link_word_set_number(&address, rows[i].word, rows[i].number),
                         rows[i].taken);
    }
}

static void test_link_word_texts_that_are_none_are_refused(void **state)
{
    char device[KVASIR_DEVICE_NAME_BYTES + 1];
    struct kvasir_link_address address = {0};
    (void)state;
    memset(device, 'x', sizeof(device));
    assert_false(
        link_word_set_text(&address, LINK_WORD_DEVICE, slice_of(device, KVASIR_DEVICE_NAME_BYTES)));
    assert_true(link_word_set_text(&address, LINK_WORD_DEVICE,
                                   slice_of(device, KVASIR_DEVICE_NAME_BYTES - 1)));
    assert_false(link_word_set_text(&address, LINK_WORD_DEVICE, slice_of("a\0b", 3)));
    assert_false(link_word_set_text(&address, LINK_WORD_LAYER, slice_of_text("token-ring")));
    assert_false(link_word_set_text(&address, LINK_WORD_GID_TYPE, slice_of_text("rocev3")));
    assert_false(link_word_set_text(&address, LINK_WORD_GID, slice_of_text("")));
    assert_false(link_word_set_text(&address, LINK_WORD_GID, slice_of_text("10.0.0.1")));
    assert_false(link_word_set_text(&address, LINK_WORD_GID, slice_of("::1\0", 4)));
    assert_false(link_word_set_text(&address, LINK_WORD_GID, slice_of(device, sizeof(device))));
    assert_false(link_word_set_text(&address, LINK_WORD_MTU, slice_of_text("1024")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_word_address_comes_back_whole),
        cmocka_unit_test(test_link_word_gid_is_written_as_an_address),
        cmocka_unit_test(test_link_word_names_are_found_in_any_case),
        cmocka_unit_test(test_link_word_numbers_out_of_range_are_refused),
        cmocka_unit_test(test_link_word_texts_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

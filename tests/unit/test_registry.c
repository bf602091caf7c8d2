/* test_registry – names that are taken or refused, stubs for what a table lacks, and the limits. */

#include "plug/registry.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static enum kvasir_status add_state(void *state, size_t raw_bytes, size_t *bound_bytes_p)
{
    *bound_bytes_p = raw_bytes + *(const size_t *)state;
    return KVASIR_OK;
}

static enum kvasir_status add_codec(struct registry *registry, const char *name)
{
    const struct kvasir_codec_ops ops = {.struct_size = sizeof(ops), .name = name};
    return registry_add_codec(registry, &ops, NULL);
}

static const struct registry_entry *find_codec(const struct registry *registry, const char *name)
{
    return registry_find(registry, REGISTRY_CODEC, slice_of_text(name));
}

static int create(void **state)
{
    *state = registry_create();
    return *state != NULL ? 0 : -1;
}

static int destroy(void **state)
{
    struct registry *registry = *state;
    registry_destroy(&registry);
    return registry == NULL ? 0 : -1;
}

static void test_registry_finds_by_name_in_any_case(void **state)
{
    struct registry *registry = *state;
    assert_int_equal(add_codec(registry, "bf16+zstd"), KVASIR_OK);
    assert_int_equal(add_codec(registry, "lz4"), KVASIR_OK);
    assert_string_equal(find_codec(registry, "LZ4")->name, "lz4");
    assert_string_equal(find_codec(registry, "bf16+zstd")->ops.codec.name, "bf16+zstd");
    assert_null(find_codec(registry, "lz"));
    assert_null(find_codec(registry, "lz44"));
    assert_null(find_codec(registry, ""));
}

static void test_registry_calls_with_the_state_that_was_given(void **state)
{
    struct registry *registry = *state;
    size_t margin_bytes = 7;
    size_t bound_bytes = 0;
    struct kvasir_codec_ops ops = {.struct_size = sizeof(ops), .name = "a", .bound = add_state};
    const struct registry_entry *entry;
    assert_int_equal(registry_add_codec(registry, &ops, &margin_bytes), KVASIR_OK);
    /* The table was copied: the module's own may go. */
    memset(&ops, 0, sizeof(ops));
    entry = find_codec(registry, "a");
    assert_int_equal(entry->ops.codec.bound(entry->state, 100, &bound_bytes), KVASIR_OK);
    assert_int_equal(bound_bytes, 107);
}

static void test_registry_fills_what_a_table_lacks(void **state)
{
    struct registry *registry = *state;
    size_t bytes = 99;
    char coded = 'c';
    char raw = 'r';
    const struct registry_entry *entry;
    assert_int_equal(add_codec(registry, "empty"), KVASIR_OK);
    entry = find_codec(registry, "empty");
    assert_int_equal(entry->ops.codec.bound(NULL, 1, &bytes), KVASIR_UNSUPPORTED);
    assert_int_equal(entry->ops.codec.encode(NULL, &raw, 1, &coded, 1, &bytes), KVASIR_UNSUPPORTED);
    assert_int_equal(entry->ops.codec.decode(NULL, &coded, 1, &raw, 1), KVASIR_UNSUPPORTED);
    assert_int_equal(bytes, 99);
    assert_int_equal(coded, 'c');
    assert_int_equal(raw, 'r');
}

static void test_registry_does_not_read_past_a_short_table(void **state)
{
    struct registry *registry = *state;
    size_t margin_bytes = 1;
    size_t bytes = 0;
    const struct registry_entry *entry;
    struct kvasir_codec_ops ops = {.struct_size = offsetof(struct kvasir_codec_ops, encode),
                                   .name = "old",
                                   .bound = add_state};
    /* What an older header does not have is anything. */
    memset(&ops.encode, 0xee, sizeof(ops.encode));
    memset(&ops.decode, 0xee, sizeof(ops.decode));
    assert_int_equal(registry_add_codec(registry, &ops, &margin_bytes), KVASIR_OK);
    entry = find_codec(registry, "old");
    assert_int_equal(entry->ops.codec.bound(entry->state, 1, &bytes), KVASIR_OK);
    assert_int_equal(entry->ops.codec.encode(NULL, NULL, 0, NULL, 0, &bytes), KVASIR_UNSUPPORTED);
    assert_int_equal(entry->ops.codec.decode(NULL, NULL, 0, NULL, 0), KVASIR_UNSUPPORTED);
}

static void test_registry_takes_a_longer_table_of_a_newer_header(void **state)
{
    struct registry *registry = *state;
    struct {
        struct kvasir_codec_ops known;
        void *newer;
    } ops = {.known = {.struct_size = sizeof(ops), .name = "new"}, .newer = NULL};
    assert_int_equal(registry_add_codec(registry, &ops.known, NULL), KVASIR_OK);
    assert_int_equal(find_codec(registry, "new")->ops.codec.struct_size, sizeof(ops.known));
}

static void test_registry_refuses_malformed_tables(void **state)
{
    struct registry *registry = *state;
    const struct kvasir_codec_ops nameless = {.struct_size = sizeof(nameless)};
    const struct kvasir_codec_ops headless = {
        .struct_size = offsetof(struct kvasir_codec_ops, bound) - 1, .name = "headless"};
    assert_int_equal(registry_add_codec(registry, NULL, NULL), KVASIR_INVALID);
    assert_int_equal(registry_add_codec(registry, &nameless, NULL), KVASIR_INVALID);
    assert_int_equal(registry_add_codec(registry, &headless, NULL), KVASIR_INVALID);
    assert_int_equal(registry_count(registry), 0);
}

static void test_registry_refuses_names_that_are_none(void **state)
{
    static const char *const wrong[] = {
        "", "none", "LZ4", "a b", "a,b", "a\n", "\xc3\xa4", "abcdefghijklmnopqrstuvwxyz012345"};
    struct registry *registry = *state;
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_int_equal(add_codec(registry, wrong[i]), KVASIR_INVALID);
    }
    assert_int_equal(add_codec(registry, "abcdefghijklmnopqrstuvwxyz01234"), KVASIR_OK);
    assert_int_equal(registry_count(registry), 1);
}

static void test_registry_refuses_a_name_twice(void **state)
{
    struct registry *registry = *state;
    assert_int_equal(add_codec(registry, "lz4"), KVASIR_OK);
    assert_int_equal(add_codec(registry, "lz4"), KVASIR_EXISTS);
    assert_int_equal(registry_count(registry), 1);
}

static void test_registry_refuses_what_it_has_no_room_for(void **state)
{
    struct registry *registry = *state;
    char name[KVASIR_MODULE_NAME_BYTES_MAX + 1];
    for (unsigned i = 0; i < REGISTRY_ENTRIES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "codec-%u", i);
        assert_int_equal(add_codec(registry, name), KVASIR_OK);
    }
    assert_int_equal(add_codec(registry, "one-more"), KVASIR_BUSY);
    assert_int_equal(registry_count(registry), REGISTRY_ENTRIES_MAX);
    assert_null(find_codec(registry, "one-more"));
}

static void test_registry_cut_forgets_the_newest(void **state)
{
    struct registry *registry = *state;
    assert_int_equal(add_codec(registry, "a"), KVASIR_OK);
    assert_int_equal(add_codec(registry, "b"), KVASIR_OK);
    registry_cut(registry, 1);
    assert_non_null(find_codec(registry, "a"));
    assert_null(find_codec(registry, "b"));
    assert_int_equal(add_codec(registry, "b"), KVASIR_OK);
}

static void test_registry_names_lists_from_an_entry_on(void **state)
{
    struct registry *registry = *state;
    char text[32];
    assert_int_equal(registry_names(registry, REGISTRY_CODEC, 0, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(add_codec(registry, "rle"), KVASIR_OK);
    assert_int_equal(add_codec(registry, "lz4"), KVASIR_OK);
    assert_int_equal(registry_names(registry, REGISTRY_CODEC, 0, text, sizeof(text)), 2);
    assert_string_equal(text, "rle, lz4");
    assert_int_equal(registry_names(registry, REGISTRY_CODEC, 1, text, sizeof(text)), 1);
    assert_string_equal(text, "lz4");
}

static void test_registry_names_leaves_out_what_does_not_fit(void **state)
{
    struct registry *registry = *state;
    char text[9];
    assert_int_equal(add_codec(registry, "rle"), KVASIR_OK);
    assert_int_equal(add_codec(registry, "lz4"), KVASIR_OK);
    assert_int_equal(registry_names(registry, REGISTRY_CODEC, 0, text, 9), 2);
    assert_string_equal(text, "rle, lz4");
    assert_int_equal(registry_names(registry, REGISTRY_CODEC, 0, text, 8), 2);
    assert_string_equal(text, "rle");
    assert_int_equal(registry_names(registry, REGISTRY_CODEC, 0, text, 1), 2);
    assert_string_equal(text, "");
}

/* A table in which every operation is there; none of them may be called. */
static struct kvasir_transport_ops make_transport(const char *name)
{
    struct kvasir_transport_ops ops;
    memset(&ops, 0xff, sizeof(ops));
    ops.struct_size = sizeof(ops);
    ops.name = name;
    return ops;
}

static void test_registry_takes_a_complete_transport(void **state)
{
    struct registry *registry = *state;
    int own = 0;
    const struct kvasir_transport_ops ops = make_transport("rdma");
    const struct registry_entry *entry;
    assert_int_equal(registry_add_transport(registry, &ops, &own), KVASIR_OK);
    assert_int_equal(registry_add_transport(registry, &ops, &own), KVASIR_EXISTS);
    entry = registry_find(registry, REGISTRY_TRANSPORT, slice_of_text("rdma"));
    assert_ptr_equal(entry->state, &own);
    assert_int_equal(memcmp(&entry->ops.transport.devices, &ops.devices,
                            sizeof(ops) - offsetof(struct kvasir_transport_ops, devices)),
                     0);
    /* Names of different kinds do not meet. */
    assert_null(find_codec(registry, "rdma"));
    assert_int_equal(add_codec(registry, "rdma"), KVASIR_OK);
}

static void test_registry_refuses_a_transport_that_lacks_an_operation(void **state)
{
    struct registry *registry = *state;
    struct kvasir_transport_ops ops;
    const size_t first = offsetof(struct kvasir_transport_ops, devices);
    for (size_t at = first; at < sizeof(ops); at += sizeof(ops.devices)) {
        ops = make_transport("rdma");
        memset((char *)&ops + at, 0, sizeof(ops.devices));
        assert_int_equal(registry_add_transport(registry, &ops, NULL), KVASIR_INVALID);
    }
    ops = make_transport("rdma");
    ops.struct_size--;
    assert_int_equal(registry_add_transport(registry, &ops, NULL), KVASIR_INVALID);
    ops = make_transport("RDMA");
    assert_int_equal(registry_add_transport(registry, &ops, NULL), KVASIR_INVALID);
    assert_int_equal(registry_add_transport(registry, NULL, NULL), KVASIR_INVALID);
    assert_int_equal(registry_count(registry), 0);
}

static void test_registry_takes_complete_spaces_only(void **state)
{
    struct registry *registry = *state;
    struct kvasir_space_ops ops;
    int own = 0;
    const size_t first = offsetof(struct kvasir_space_ops, find);
    for (size_t at = first; at < sizeof(ops); at += sizeof(ops.find)) {
        memset(&ops, 0xff, sizeof(ops));
        ops.struct_size = sizeof(ops);
        ops.name = "cuda";
        memset((char *)&ops + at, 0, sizeof(ops.find));
        assert_int_equal(registry_add_space(registry, &ops, NULL), KVASIR_INVALID);
    }
    memset(&ops, 0xff, sizeof(ops));
    ops.name = "cuda";
    ops.struct_size = sizeof(ops) - 1;
    assert_int_equal(registry_add_space(registry, &ops, NULL), KVASIR_INVALID);
    ops.struct_size = sizeof(ops);
    assert_int_equal(registry_add_space(registry, &ops, &own), KVASIR_OK);
    assert_int_equal(registry_add_space(registry, &ops, &own), KVASIR_EXISTS);
    const struct registry_entry *entry =
        registry_find(registry, REGISTRY_SPACE, slice_of_text("cuda"));
    assert_ptr_equal(entry->state, &own);
    assert_memory_equal(&entry->ops.space.find, &ops.find, sizeof(ops) - first);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_registry_finds_by_name_in_any_case),
        TEST(test_registry_calls_with_the_state_that_was_given),
        TEST(test_registry_fills_what_a_table_lacks),
        TEST(test_registry_does_not_read_past_a_short_table),
        TEST(test_registry_takes_a_longer_table_of_a_newer_header),
        TEST(test_registry_refuses_malformed_tables),
        TEST(test_registry_refuses_names_that_are_none),
        TEST(test_registry_refuses_a_name_twice),
        TEST(test_registry_refuses_what_it_has_no_room_for),
        TEST(test_registry_cut_forgets_the_newest),
        TEST(test_registry_names_lists_from_an_entry_on),
        TEST(test_registry_takes_complete_spaces_only),
        TEST(test_registry_takes_a_complete_transport),
        TEST(test_registry_refuses_a_transport_that_lacks_an_operation),
        TEST(test_registry_names_leaves_out_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

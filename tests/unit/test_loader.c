/* test_loader – modules of tests/modules: what is loaded works, what is refused says why and leaves
 * nothing behind. They lie in test-modules of the build this program belongs to. */

#include "base/log.h"
#include "base/random.h"
#include "plug/loader.h"
#include "test_seed.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LOG_BYTES_MAX   16384
#define BLOCK_BYTES_MAX 5000

struct fixture {
    struct loader *loader;
    char folder[PATH_MAX]; /* of the modules */
    char scratch[64];      /* a folder of this test's own */
    char said[LOADER_SAID_BYTES];
    char log[LOG_BYTES_MAX];
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    char log_path[96];
    ssize_t length_bytes;
    if (fixture == NULL) {
        return -1;
    }
    *state = fixture;
    /* BUILD/tests/unit/test_loader, and so BUILD/test-modules. */
    length_bytes = readlink("/proc/self/exe", fixture->folder, sizeof(fixture->folder) - 32);
    if (length_bytes <= 0) {
        return -1;
    }
    fixture->folder[length_bytes] = '\0';
    for (int i = 0; i < 3; i++) {
        *strrchr(fixture->folder, '/') = '\0';
    }
    memcpy(fixture->folder + strlen(fixture->folder), "/test-modules", sizeof("/test-modules"));
    (void)snprintf(fixture->scratch, sizeof(fixture->scratch), "/tmp/kvasir-test-loader-XXXXXX");
    if (mkdtemp(fixture->scratch) == NULL) {
        return -1;
    }
    (void)snprintf(log_path, sizeof(log_path), "%s/log", fixture->scratch);
    fixture->loader = loader_create("9.8.7");
    return fixture->loader != NULL && log_setup(LOG_INFO, log_path) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char path[96];
    bool ok = log_setup(LOG_INFO, NULL);
    loader_destroy(&fixture->loader);
    ok = ok && fixture->loader == NULL;
    (void)snprintf(path, sizeof(path), "%s/log", fixture->scratch);
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/file", fixture->scratch);
    (void)unlink(path);
    (void)rmdir(fixture->scratch);
    free(fixture);
    return ok ? 0 : -1;
}

static const char *read_log(struct fixture *fixture)
{
    char path[96];
    FILE *file;
    size_t length_bytes;
    (void)snprintf(path, sizeof(path), "%s/log", fixture->scratch);
    file = fopen(path, "r");
    assert_non_null(file);
    length_bytes = fread(fixture->log, 1, LOG_BYTES_MAX - 1, file);
    fixture->log[length_bytes] = '\0';
    (void)fclose(file);
    return fixture->log;
}

static enum kvasir_status load(struct fixture *fixture, const char *name)
{
    char path[PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/%s.so", fixture->folder, name);
    return loader_load(fixture->loader, path, fixture->said, sizeof(fixture->said));
}

static const struct registry_entry *find_codec(const struct fixture *fixture, const char *name)
{
    return registry_find(loader_registry(fixture->loader), REGISTRY_CODEC, slice_of_text(name));
}

/* The module is refused with this status and a sentence that names its file and holds the words; the
 * loader is as it was. */
static void check_refused(struct fixture *fixture, const char *name, enum kvasir_status status,
                          const char *words)
{
    unsigned modules = loader_count(fixture->loader);
    unsigned entries = registry_count(loader_registry(fixture->loader));
    assert_int_equal(load(fixture, name), status);
    if (strstr(fixture->said, words) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", fixture->said, words);
    }
    assert_non_null(strstr(fixture->said, name));
    assert_non_null(strstr(fixture->said, " refused: "));
    assert_int_equal(loader_count(fixture->loader), modules);
    assert_int_equal(registry_count(loader_registry(fixture->loader)), entries);
}

/* ---- what is loaded ---- */

static void test_loader_loads_a_module_and_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct loader_module module;
    assert_int_equal(load(fixture, "rle"), KVASIR_OK);
    assert_non_null(strstr(fixture->said, "module rle 1.2.3 loaded from /"));
    assert_non_null(strstr(fixture->said, "/rle.so: run lengths of bytes, for tests; codecs: rle"));
    assert_int_equal(loader_count(fixture->loader), 1);
    module = loader_module(fixture->loader, 0);
    assert_string_equal(module.name, "rle");
    assert_string_equal(module.summary, "run lengths of bytes, for tests");
    assert_int_equal(module.version, 10203);
    assert_string_equal(strrchr(module.path, '/'), "/rle.so");
    assert_non_null(strstr(read_log(fixture), " I main module rle: run lengths up to 255\n"));
}

/* Runs of random lengths, so that the codec has something to find. */
static size_t fill(struct random *random, uint8_t *raw)
{
    size_t length_bytes = 1 + random_below(random, BLOCK_BYTES_MAX);
    for (size_t at = 0; at < length_bytes;) {
        size_t run = 1 + random_below(random, 600);
        run = run < length_bytes - at ? run : length_bytes - at;
        memset(raw + at, (int)random_below(random, 256), run);
        at += run;
    }
    return length_bytes;
}

static void test_loader_codec_gives_back_what_it_was_given(void **state)
{
    struct fixture *fixture = *state;
    struct random random;
    uint8_t raw[BLOCK_BYTES_MAX];
    uint8_t coded[2 * BLOCK_BYTES_MAX];
    uint8_t again[BLOCK_BYTES_MAX];
    const struct registry_entry *codec;
    random_init(&random, test_seed());
    assert_int_equal(load(fixture, "rle"), KVASIR_OK);
    codec = find_codec(fixture, "rle");
    for (int i = 0; i < 200; i++) {
        size_t raw_bytes = fill(&random, raw);
        size_t bound_bytes = 0;
        size_t coded_bytes = 0;
        size_t less_bytes = 12345;
        assert_int_equal(codec->ops.codec.bound(codec->state, raw_bytes, &bound_bytes), KVASIR_OK);
        assert_true(bound_bytes <= sizeof(coded));
        assert_int_equal(
            codec->ops.codec.encode(codec->state, raw, raw_bytes, coded, bound_bytes, &coded_bytes),
            KVASIR_OK);
        assert_int_equal(
            codec->ops.codec.decode(codec->state, coded, coded_bytes, again, raw_bytes), KVASIR_OK);
        assert_memory_equal(raw, again, raw_bytes);
        /* One byte less of room, of code or of raw bytes is refused. */
        assert_int_equal(codec->ops.codec.encode(codec->state, raw, raw_bytes, coded,
                                                 coded_bytes - 1, &less_bytes),
                         KVASIR_TOO_SMALL);
        assert_int_equal(less_bytes, 12345);
        assert_int_equal(
            codec->ops.codec.decode(codec->state, coded, coded_bytes - 1, again, raw_bytes),
            KVASIR_CORRUPT);
        assert_int_equal(
            codec->ops.codec.decode(codec->state, coded, coded_bytes, again, raw_bytes - 1),
            KVASIR_CORRUPT);
    }
}

static void test_loader_module_may_lack_operations(void **state)
{
    struct fixture *fixture = *state;
    const struct registry_entry *codec;
    size_t bytes = 0;
    assert_int_equal(load(fixture, "partial"), KVASIR_OK);
    assert_non_null(strstr(fixture->said, "module partial 0.10.20 loaded"));
    assert_non_null(strstr(fixture->said, "codecs: bound-only, short"));
    codec = find_codec(fixture, "short");
    assert_int_equal(codec->ops.codec.bound(codec->state, 10, &bytes), KVASIR_OK);
    assert_int_equal(bytes, 15);
    assert_int_equal(codec->ops.codec.encode(codec->state, "r", 1, &bytes, 1, &bytes),
                     KVASIR_UNSUPPORTED);
}

static void test_loader_module_cannot_register_after_setup(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(load(fixture, "late"), KVASIR_OK);
    assert_non_null(strstr(fixture->said, "codecs: none"));
    loader_destroy(&fixture->loader);
    assert_non_null(strstr(read_log(fixture), " W main module late: too late\n"));
}

static void test_loader_takes_a_path_without_a_folder(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(chdir(fixture->folder), 0);
    assert_int_equal(loader_load(fixture->loader, "rle.so", fixture->said, LOADER_SAID_BYTES),
                     KVASIR_OK);
    assert_int_equal(loader_module(fixture->loader, 0).path[0], '/');
}

/* ---- what is refused ---- */

static void test_loader_refuses_a_missing_file(void **state)
{
    check_refused(*state, "not_there", KVASIR_NOT_FOUND, "refused: No such file or directory");
}

static void test_loader_refuses_what_is_no_regular_file(void **state)
{
    struct fixture *fixture = *state;
    char path[96];
    assert_int_equal(
        loader_load(fixture->loader, fixture->folder, fixture->said, LOADER_SAID_BYTES),
        KVASIR_INVALID);
    assert_non_null(strstr(fixture->said, "it is no regular file"));
    /* A pipe nobody writes to: opening it would wait for ever. */
    (void)snprintf(path, sizeof(path), "%s/file", fixture->scratch);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(loader_load(fixture->loader, path, fixture->said, LOADER_SAID_BYTES),
                     KVASIR_INVALID);
    assert_non_null(strstr(fixture->said, "it is no regular file"));
}

static void test_loader_refuses_a_file_that_is_no_shared_object(void **state)
{
    struct fixture *fixture = *state;
    char path[96];
    FILE *file;
    (void)snprintf(path, sizeof(path), "%s/file", fixture->scratch);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++) {
        (void)fputs("this is no program\n", file);
    }
    (void)fclose(file);
    assert_int_equal(loader_load(fixture->loader, path, fixture->said, LOADER_SAID_BYTES),
                     KVASIR_IO);
    assert_non_null(strstr(fixture->said, "refused: it cannot be opened: "));
    assert_non_null(strstr(fixture->said, "invalid ELF header"));
}

static void test_loader_refuses_a_shared_object_that_is_no_module(void **state)
{
    check_refused(*state, "no_symbol", KVASIR_INVALID,
                  "it is no Kvasir module, it exports no kvasir_module");
    check_refused(*state, "other_thing", KVASIR_INVALID,
                  "it is no Kvasir module, its kvasir_module is something else");
    check_refused(*state, "short_symbol", KVASIR_INVALID,
                  "it is no Kvasir module, its kvasir_module is something else");
    check_refused(*state, "other_magic", KVASIR_INVALID,
                  "it is no Kvasir module, its kvasir_module has not our magic number");
}

static void test_loader_refuses_another_abi_and_names_both(void **state)
{
    check_refused(*state, "other_abi", KVASIR_UNSUPPORTED,
                  "it was built for module ABI 8, this server has 1");
}

static void test_loader_refuses_another_size_and_names_both(void **state)
{
    char words[100];
    (void)snprintf(words, sizeof(words), "struct kvasir_module has %zu bytes, this server's %zu",
                   sizeof(struct kvasir_module) + 8, sizeof(struct kvasir_module));
    check_refused(*state, "other_size", KVASIR_UNSUPPORTED, words);
}

static void test_loader_refuses_a_module_that_does_not_say_who_it_is(void **state)
{
    check_refused(*state, "bad_name", KVASIR_INVALID, "its name must have 1 to 31 bytes of a-z");
    check_refused(*state, "no_summary", KVASIR_INVALID,
                  "no-summary must have a summary of up to 100 bytes");
    check_refused(*state, "no_setup", KVASIR_INVALID, "no-setup has no setup");
}

static void test_loader_refuses_a_name_twice(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(load(fixture, "rle"), KVASIR_OK);
    check_refused(fixture, "rle_twin", KVASIR_EXISTS, "a module rle is loaded already, from /");
    assert_non_null(strstr(fixture->said, "/rle.so"));
    check_refused(fixture, "rle", KVASIR_EXISTS, "a module rle is loaded already, from /");
    /* The first one is not disturbed. */
    assert_non_null(find_codec(fixture, "rle"));
}

static void test_loader_refuses_a_module_whose_library_is_missing(void **state)
{
    check_refused(*state, "unresolved", KVASIR_IO, "undefined symbol: nobody_has_this");
}

static void test_loader_drops_what_a_failed_setup_registered(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(load(fixture, "rle"), KVASIR_OK);
    check_refused(fixture, "setup_fails", KVASIR_UNSUPPORTED,
                  "the setup of setup-fails failed: not supported");
    assert_null(find_codec(fixture, "left-behind"));
    assert_non_null(find_codec(fixture, "rle"));
    assert_non_null(
        strstr(read_log(fixture), " W main module setup-fails: there is no such device here\n"));
}

static void test_loader_takes_only_an_answer_that_is_final(void **state)
{
    check_refused(*state, "setup_waits", KVASIR_IO, "the setup of setup-waits failed: pending");
}

/* A copy of spare_00.so at path, with the number in its name changed. */
static void write_spare(const struct fixture *fixture, const char *path, unsigned number)
{
    static char bytes[1U << 20];
    char source[PATH_MAX + 64];
    FILE *file;
    size_t length_bytes;
    char *name;
    (void)snprintf(source, sizeof(source), "%s/spare_00.so", fixture->folder);
    file = fopen(source, "r");
    assert_non_null(file);
    length_bytes = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    assert_true(length_bytes < sizeof(bytes));
    name = memmem(bytes, length_bytes, "spare-00", sizeof("spare-00"));
    assert_non_null(name);
    name[6] = (char)('0' + number / 10);
    name[7] = (char)('0' + number % 10);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length_bytes, file), length_bytes);
    assert_int_equal(fclose(file), 0);
}

static void test_loader_refuses_more_modules_than_it_has_room_for(void **state)
{
    struct fixture *fixture = *state;
    char path[96];
    for (unsigned i = 0; i < LOADER_MODULES_MAX; i++) {
        enum kvasir_status status;
        /* The system takes a file of the same path for the same. */
        (void)snprintf(path, sizeof(path), "%s/spare-%u", fixture->scratch, i);
        write_spare(fixture, path, i);
        status = loader_load(fixture->loader, path, fixture->said, LOADER_SAID_BYTES);
        (void)unlink(path);
        assert_int_equal(status, KVASIR_OK);
    }
    check_refused(fixture, "rle", KVASIR_BUSY, "16 modules are loaded already");
    assert_string_equal(loader_module(fixture->loader, LOADER_MODULES_MAX - 1).name, "spare-15");
}

/* ---- lists ---- */

static void test_loader_list_logs_one_line_for_each(void **state)
{
    struct fixture *fixture = *state;
    char paths[3 * PATH_MAX + 64];
    const char *log;
    (void)snprintf(paths, sizeof(paths), " %s/rle.so,%s/other_abi.so  ,\t%s/partial.so,",
                   fixture->folder, fixture->folder, fixture->folder);
    assert_int_equal(loader_load_list(fixture->loader, paths), 1);
    assert_int_equal(loader_count(fixture->loader), 2);
    log = read_log(fixture);
    assert_non_null(strstr(log, " I main module rle 1.2.3 loaded from "));
    assert_non_null(strstr(log, " I main module partial 0.10.20 loaded from "));
    assert_non_null(strstr(log, "other_abi.so refused: "));
    assert_non_null(strstr(log, "; the server goes on without it\n"));
}

static void test_loader_list_of_nothing_loads_nothing(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(loader_load_list(fixture->loader, ""), 0);
    assert_int_equal(loader_load_list(fixture->loader, " , \t,"), 0);
    assert_int_equal(loader_count(fixture->loader), 0);
    assert_string_equal(read_log(fixture), "");
}

static void test_loader_list_refuses_a_path_that_is_too_long(void **state)
{
    struct fixture *fixture = *state;
    char paths[LOADER_PATH_BYTES_MAX + 1];
    memset(paths, 'x', sizeof(paths) - 1);
    paths[sizeof(paths) - 1] = '\0';
    assert_int_equal(loader_load_list(fixture->loader, paths), 1);
    assert_non_null(strstr(read_log(fixture), "its path has more than 1023 bytes\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_thread_name("main");
    const struct CMUnitTest tests[] = {
        TEST(test_loader_loads_a_module_and_says_so),
        TEST(test_loader_codec_gives_back_what_it_was_given),
        TEST(test_loader_module_may_lack_operations),
        TEST(test_loader_module_cannot_register_after_setup),
        TEST(test_loader_takes_a_path_without_a_folder),
        TEST(test_loader_refuses_a_missing_file),
        TEST(test_loader_refuses_what_is_no_regular_file),
        TEST(test_loader_refuses_a_file_that_is_no_shared_object),
        TEST(test_loader_refuses_a_shared_object_that_is_no_module),
        TEST(test_loader_refuses_another_abi_and_names_both),
        TEST(test_loader_refuses_another_size_and_names_both),
        TEST(test_loader_refuses_a_module_that_does_not_say_who_it_is),
        TEST(test_loader_refuses_a_name_twice),
        TEST(test_loader_refuses_a_module_whose_library_is_missing),
        TEST(test_loader_drops_what_a_failed_setup_registered),
        TEST(test_loader_takes_only_an_answer_that_is_final),
        TEST(test_loader_refuses_more_modules_than_it_has_room_for),
        TEST(test_loader_list_logs_one_line_for_each),
        TEST(test_loader_list_of_nothing_loads_nothing),
        TEST(test_loader_list_refuses_a_path_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Unit tests of mem/region and of the limits it looks at. */
#include "mem/region.h"

#include "base/fault.h"
#include "mem/region_limits.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1UL << 20)

static struct region *create(const struct region_config *config)
{
    struct region *region = NULL;
    char error[512] = "";
    if (region_create(config, error, sizeof(error), &region) != KVASIR_OK) {
        fail_msg("%s", error);
    }
    return region;
}

static void test_region_private_memory_can_be_written(void **state)
{
    (void)state;
    const struct region_config config = {.name = "metadata", .size_bytes = 4 * MIB};
    struct region *region = create(&config);
    assert_int_equal(region_descriptor(region), -1);
    assert_int_equal(region_size_bytes(region), 4 * MIB);
    assert_int_equal((uintptr_t)region_base(region) % (2 * MIB), 0);
    memset(region_base(region), 1, 4 * MIB);
    region_destroy(&region);
    assert_null(region);
    region_destroy(&region);
}

static void test_region_sizes_that_are_no_pages_are_invalid(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, MIB, 3 * MIB};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct region *region = NULL;
        char error[256] = "";
        const struct region_config config = {.name = "odd", .size_bytes = sizes[i]};
        assert_int_equal(region_create(&config, error, sizeof(error), &region), KVASIR_INVALID);
        assert_non_null(strstr(error, "multiple of 2 MiB"));
        assert_null(region);
    }
}

static void test_region_shared_memory_can_only_be_read_by_others(void **state)
{
    (void)state;
    const struct region_config config = {.name = "payload", .size_bytes = 4 * MIB, .shared = true};
    struct region *region = create(&config);
    int fd = region_descriptor(region);

    assert_ptr_equal(mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(write(fd, "x", 1), -1);
    assert_int_equal(ftruncate(fd, 2 * MIB), -1);
    assert_int_equal(ftruncate(fd, 8 * MIB), -1);
    uint8_t *reader = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(reader, MAP_FAILED);
    assert_int_equal(mprotect(reader, 4 * MIB, PROT_READ | PROT_WRITE), -1);

    /* The mapping from before the seal goes on writing, and readers see it. */
    region_base(region)[3 * MIB] = 42;
    assert_int_equal(reader[3 * MIB], 42);

    assert_int_equal(munmap(reader, 4 * MIB), 0);
    region_destroy(&region);
}

static size_t resident_pages(const struct region *region)
{
    size_t count = region_size_bytes(region) / (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *present = calloc(count, 1);
    size_t resident = 0;
    assert_int_equal(mincore(region_base(region), region_size_bytes(region), present), 0);
    for (size_t i = 0; i < count; i++) {
        resident += present[i] & 1;
    }
    free(present);
    return resident;
}

struct progress {
    uint32_t call_count;
    size_t done_bytes;
    size_t total_bytes;
};

static void progress_note(void *argument, size_t done_bytes, size_t total_bytes)
{
    struct progress *progress = argument;
    assert_true(done_bytes >= progress->done_bytes);
    *progress = (struct progress){progress->call_count + 1, done_bytes, total_bytes};
}

static void populate_and_look(bool shared, bool huge_try, unsigned threads)
{
    struct progress progress = {0};
    const struct region_config config = {
        .name = "populated",
        .size_bytes = 66 * MIB,
        .shared = shared,
        .huge_try = huge_try,
        .populate = true,
        .populate_threads = threads,
        .progress = progress_note,
        .progress_argument = &progress,
    };
    struct region *region = create(&config);
    assert_int_equal(resident_pages(region), 66 * MIB / (size_t)sysconf(_SC_PAGESIZE));
    assert_true(progress.call_count >= 1);
    assert_int_equal(progress.done_bytes, 66 * MIB);
    assert_int_equal(progress.total_bytes, 66 * MIB);
    assert_true(huge_try || region_page_kind(region) == REGION_PAGES_SMALL);
    region_destroy(&region);
}

static void test_region_populate_makes_every_page_present(void **state)
{
    (void)state;
    populate_and_look(true, false, 1);
    populate_and_look(true, false, 3);
    populate_and_look(false, false, 0);
}

static void test_region_populate_works_with_huge_pages_wished(void **state)
{
    (void)state;
    populate_and_look(true, true, 2);
    populate_and_look(false, true, 2);
}

static unsigned asked_count;

static bool cancelled_when_asked_twice(void)
{
    asked_count++;
    return asked_count == 2;
}

static void test_region_populate_gives_up_when_cancelled(void **state)
{
    const struct region_config config = {
        .name = "cancelled",
        .size_bytes = 66 * MIB,
        .populate = true,
        .populate_threads = 1,
        .cancelled = cancelled_when_asked_twice,
    };
    struct region *region = NULL;
    char error[256];
    (void)state;
    asked_count = 0;
    assert_int_equal(region_create(&config, error, sizeof(error), &region), KVASIR_CANCELLED);
    assert_null(region);
    assert_int_equal(asked_count, 2);
    assert_non_null(strstr(error, "cancelled memory of 66.00M"));
}

static void test_region_populate_does_without_huge_pages(void **state)
{
    (void)state;
    fault_arm("region_collapse", 1, 1);
    populate_and_look(true, true, 2);
    fault_disarm_all();
}

static void test_region_populate_touches_where_advice_is_unknown(void **state)
{
    (void)state;
    fault_arm("region_populate_advice", 1, 1);
    populate_and_look(true, false, 2);
    fault_disarm_all();
}

static void test_region_is_not_touched_unless_asked(void **state)
{
    (void)state;
    const struct region_config config = {.name = "lazy", .size_bytes = 4 * MIB};
    struct region *region = create(&config);
    assert_int_equal(resident_pages(region), 0);
    region_destroy(&region);
}

static void test_region_failures_leave_nothing_behind(void **state)
{
    (void)state;
    static const struct {
        const char *point;
        enum kvasir_status status;
        const char *words;
    } cases[] = {
        {"region_create", KVASIR_NO_MEMORY, "no memory to describe it"},
        {"region_memfd", KVASIR_IO, "memfd cannot be mapped"},
        {"region_map", KVASIR_IO, "memfd cannot be mapped"},
        {"region_populate", KVASIR_NO_MEMORY, "lower --maxmemory"},
        {"region_seal", KVASIR_IO, "cannot be sealed"},
    };
    const struct region_config config = {
        .name = "payload", .size_bytes = 4 * MIB, .shared = true, .populate = true};
    int free_fd = dup(0);
    close(free_fd);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct region *region = NULL;
        char error[256] = "";
        fault_arm(cases[i].point, 1, 1);
        errno = EIO;
        assert_int_equal(region_create(&config, error, sizeof(error), &region), cases[i].status);
        fault_disarm_all();
        assert_null(region);
        assert_non_null(strstr(error, cases[i].words));
        assert_non_null(strstr(error, "payload memory of 4.00M"));
        int fd = dup(0);
        assert_int_equal(fd, free_fd);
        close(fd);
    }
}

static void test_region_larger_than_the_machine_is_refused(void **state)
{
    (void)state;
    const struct region_config config = {
        .name = "payload", .size_bytes = 1UL << 44, .shared = true, .populate = true};
    struct region *region = NULL;
    char error[512] = "";
    assert_int_equal(region_create(&config, error, sizeof(error), &region), KVASIR_NO_MEMORY);
    assert_non_null(strstr(error, "payload memory of 16.00T does not fit: the "));
    assert_non_null(strstr(error, "lower --maxmemory or "));
}

/* Limits are lowered in a child, so that they do not stay. Exit 0: the region was refused with a
 * sentence that holds words. */
static int child_is_refused(int resource, const char *words)
{
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit rlimit = {.rlim_cur = 64 * MIB, .rlim_max = 64 * MIB};
        const struct region_config config = {
            .name = "payload", .size_bytes = 1024 * MIB, .shared = true};
        struct region *region = NULL;
        char error[512] = "";
        if (setrlimit(resource, &rlimit) != 0 ||
            region_create(&config, error, sizeof(error), &region) != KVASIR_NO_MEMORY) {
            _exit(1);
        }
        _exit(strstr(error, words) != NULL ? 0 : 2);
    }
    int wait_status = 0;
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 100 + WTERMSIG(wait_status);
}

static void test_region_names_process_limits(void **state)
{
    (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_int_equal(child_is_refused(RLIMIT_AS, "RLIMIT_AS (ulimit -v) is 64.00M"), 0);
#endif
    assert_int_equal(child_is_refused(RLIMIT_FSIZE, "RLIMIT_FSIZE (ulimit -f) is 64.00M"), 0);
}

/* A root directory with its own /proc and /sys. */
static int root_setup(void **state)
{
    static const char *const folders[] = {"proc",
                                          "proc/self",
                                          "sys",
                                          "sys/fs",
                                          "sys/fs/cgroup",
                                          "sys/fs/cgroup/box",
                                          "sys/fs/cgroup/box/inner",
                                          "sys/fs/cgroup/memory",
                                          "sys/fs/cgroup/memory/box"};
    char *root = strdup("/tmp/test_region_XXXXXX");
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < ARRAY_COUNT(folders); i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    *state = root;
    return 0;
}

static const char *const root_files[] = {
    "proc/meminfo",
    "proc/self/cgroup",
    "sys/fs/cgroup/box/memory.max",
    "sys/fs/cgroup/box/memory.current",
    "sys/fs/cgroup/box/memory.stat",
    "sys/fs/cgroup/box/inner/memory.max",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes",
};

static int root_teardown(void **state)
{
    static const char *const folders[] = {"sys/fs/cgroup/memory/box",
                                          "sys/fs/cgroup/memory",
                                          "sys/fs/cgroup/box/inner",
                                          "sys/fs/cgroup/box",
                                          "sys/fs/cgroup",
                                          "sys/fs",
                                          "sys",
                                          "proc/self",
                                          "proc",
                                          ""};
    char *root = *state;
    char path[256];
    for (size_t i = 0; i < ARRAY_COUNT(root_files); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, root_files[i]);
        (void)unlink(path);
    }
    for (size_t i = 0; i < ARRAY_COUNT(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        (void)rmdir(path);
    }
    free(root);
    return 0;
}

static void root_write(const char *root, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool root_allows(const char *root, uint64_t size_bytes, char *error, size_t error_capacity)
{
    const struct region_limits_ask ask = {
        .root = root, .name = "payload", .size_bytes = size_bytes};
    error[0] = '\0';
    return region_limits_allow(&ask, error, error_capacity);
}

static void test_region_limits_unreadable_do_not_count(void **state)
{
    char error[512];
    assert_true(root_allows(*state, 1UL << 40, error, sizeof(error)));
}

static void test_region_limits_name_cgroup_v2_above_own_group(void **state)
{
    char error[512];
    root_write(*state, "proc/self/cgroup", "1:name=systemd:/x\n0::/box/inner\n");
    root_write(*state, "sys/fs/cgroup/box/inner/memory.max", "max\n");
    root_write(*state, "sys/fs/cgroup/box/memory.max", "8589934592\n");
    root_write(*state, "sys/fs/cgroup/box/memory.current", "2362232012\n");
    /* Of what is in use 1 GiB is cached files, which give way. */
    root_write(*state, "sys/fs/cgroup/box/memory.stat",
               "anon 1\ninactive_anon 5\ninactive_file 1000000000\nactive_file 73741824\n");

    assert_true(root_allows(*state, 6800 * MIB, error, sizeof(error)));
    assert_false(root_allows(*state, 12 * 1024 * MIB, error, sizeof(error)));

    assert_string_equal(error, "payload memory of 12.00G does not fit: the cgroup limit "
                               "/sys/fs/cgroup/box/memory.max is 8.00G with 1.20G in use; "
                               "lower --maxmemory or raise the limit");
}

static void test_region_limits_name_cgroup_v1(void **state)
{
    char error[512];
    root_write(*state, "proc/self/cgroup", "9:cpu:/box\n4:memory:/box\n0::/\n");
    root_write(*state, "sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1073741824\n");
    root_write(*state, "sys/fs/cgroup/memory/box/memory.usage_in_bytes", "536870912\n");

    assert_true(root_allows(*state, 512 * MIB, error, sizeof(error)));
    assert_false(root_allows(*state, 514 * MIB, error, sizeof(error)));

    assert_non_null(strstr(error, "/sys/fs/cgroup/memory/box/memory.limit_in_bytes is 1.00G with "
                                  "512.00M in use"));
}

static void test_region_limits_unlimited_cgroup_v1_allows(void **state)
{
    char error[512];
    root_write(*state, "proc/self/cgroup", "4:memory:/box\n");
    root_write(*state, "sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
    root_write(*state, "sys/fs/cgroup/memory/box/memory.usage_in_bytes", "9223372036854771712\n");
    assert_true(root_allows(*state, 1UL << 40, error, sizeof(error)));
}

static void test_region_limits_name_machine_memory(void **state)
{
    char error[512];
    root_write(*state, "proc/meminfo",
               "MemTotal:       4194304 kB\nMemFree: 1 kB\nMemAvailable:   3145728 kB\n");
    assert_true(root_allows(*state, 3072 * MIB, error, sizeof(error)));
    assert_false(root_allows(*state, 3074 * MIB, error, sizeof(error)));
    assert_non_null(strstr(error, "the machine's memory (MemTotal in /proc/meminfo) is 4.00G with "
                                  "1.00G in use"));
}

#define ROOT_TEST(name) cmocka_unit_test_setup_teardown(name, root_setup, root_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_region_private_memory_can_be_written),
        cmocka_unit_test(test_region_sizes_that_are_no_pages_are_invalid),
        cmocka_unit_test(test_region_shared_memory_can_only_be_read_by_others),
        cmocka_unit_test(test_region_populate_makes_every_page_present),
        cmocka_unit_test(test_region_populate_works_with_huge_pages_wished),
        cmocka_unit_test(test_region_populate_gives_up_when_cancelled),
        cmocka_unit_test(test_region_populate_does_without_huge_pages),
        cmocka_unit_test(test_region_populate_touches_where_advice_is_unknown),
        cmocka_unit_test(test_region_is_not_touched_unless_asked),
        cmocka_unit_test(test_region_failures_leave_nothing_behind),
        cmocka_unit_test(test_region_larger_than_the_machine_is_refused),
        cmocka_unit_test(test_region_names_process_limits),
        ROOT_TEST(test_region_limits_unreadable_do_not_count),
        ROOT_TEST(test_region_limits_name_cgroup_v2_above_own_group),
        ROOT_TEST(test_region_limits_name_cgroup_v1),
        ROOT_TEST(test_region_limits_unlimited_cgroup_v1_allows),
        ROOT_TEST(test_region_limits_name_machine_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_check – a fact that does not hold ends the process, in release builds too. */

#include "base/check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct object {
    unsigned magic;
};

typedef void child_fn(int argument);

/* The wait status of a child that runs the function; its message goes nowhere. */
static int run_child(child_fn *function, int argument)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO);
        function(argument);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void check_is_two(int argument)
{
    check(argument == 2);
}

static void check_slow_is_two(int argument)
{
    check_slow(argument == 2);
}

static void check_magic(int argument)
{
    struct object object = {.magic = (unsigned)argument};
    CHECK_MAGIC(&object, 2);
}

static void reach_unreachable(int argument)
{
    (void)argument;
    unreachable();
}

static void assert_aborts_unless_two(child_fn *function)
{
    int status = run_child(function, 2);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = run_child(function, 3);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void test_check_aborts_when_the_fact_fails(void **state)
{
    (void)state;
    assert_aborts_unless_two(check_is_two);
}

static void test_check_slow_is_on_in_test_builds(void **state)
{
    (void)state;
    assert_aborts_unless_two(check_slow_is_two);
}

static void test_check_magic_aborts_on_another_object(void **state)
{
    (void)state;
    assert_aborts_unless_two(check_magic);
}

static void test_check_unreachable_aborts(void **state)
{
    (void)state;
    int status = run_child(reach_unreachable, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void test_check_evaluates_its_condition_once(void **state)
{
    (void)state;
    int count = 0;
    check(++count == 1);
    assert_int_equal(count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_aborts_when_the_fact_fails),
        cmocka_unit_test(test_check_slow_is_on_in_test_builds),
        cmocka_unit_test(test_check_magic_aborts_on_another_object),
        cmocka_unit_test(test_check_unreachable_aborts),
        cmocka_unit_test(test_check_evaluates_its_condition_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Unit tests of store/policy_fifo and store/policy_prefix: what each promises, and random operations
 * on both against a naive account of who is inside. */
#include "store/policy_prefix.h"

#include "base/fault.h"
#include "store/policy_fifo.h"
#include "store/reuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define VALUES_MAX   64U
#define RANDOM_STEPS 20000U

static uint64_t test_mix(uint64_t x)
{
    x = (x + 1) * 0x9E3779B97F4A7C15U;
    return x ^ (x >> 29) ^ (x << 17);
}

static void test_chain(struct value *values, unsigned count, uint64_t first)
{
    for (unsigned i = 0; i < count; i++) {
        values[i] = (struct value){.hash = test_mix(first + i), .length_bytes = 4096};
        if (i > 0) {
            values[i].parent_hash = values[i - 1].hash;
            values[i].flags = VALUE_FLAG_PARENT;
        }
    }
}

static struct value *test_evict(const struct policy_ops *ops, struct policy *policy)
{
    struct value *value = ops->victim(policy);
    if (value != NULL) {
        ops->remove(policy, value);
    }
    return value;
}

static void test_policy_prefix_evicts_chains_from_their_tails(void **state)
{
    (void)state;
    struct value chain[4];
    test_chain(chain, 4, 10);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    for (unsigned i = 0; i < 4; i++) {
        policy_prefix.insert(policy, &chain[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        policy_prefix.touch(policy, &chain[i]);
    }
    for (unsigned i = 4; i-- > 0;) {
        assert_ptr_equal(test_evict(&policy_prefix, policy), &chain[i]);
    }
    assert_null(policy_prefix.victim(policy));
    policy_prefix.destroy(&policy);
    assert_null(policy);
}

static void test_policy_prefix_takes_a_parent_that_is_its_own(void **state)
{
    (void)state;
    struct value value = {.hash = 7, .parent_hash = 7, .flags = VALUE_FLAG_PARENT};
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    policy_prefix.insert(policy, &value);
    policy_prefix.touch(policy, &value);
    policy_prefix.touch(policy, &value);
    assert_ptr_equal(test_evict(&policy_prefix, policy), &value);
    assert_null(policy_prefix.victim(policy));
    policy_prefix.destroy(&policy);
}

/* Values that are read again and again beside many that are not: they learn to stay, though the others
 * are younger. */
static void test_policy_prefix_keeps_what_comes_back(void **state)
{
    (void)state;
    struct value steady[2];
    struct value passing[16];
    test_chain(steady, 2, 500);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    policy_prefix.insert(policy, &steady[0]);
    policy_prefix.insert(policy, &steady[1]);
    for (unsigned i = 0; i < 20000; i++) {
        struct value *value = &passing[i % 16];
        if (i >= 16) {
            policy_prefix.remove(policy, value);
        }
        *value = (struct value){.hash = test_mix(1000 + i)};
        policy_prefix.insert(policy, value);
        if (i % 8 == 0) {
            policy_prefix.touch(policy, &steady[0]);
            policy_prefix.touch(policy, &steady[1]);
        }
        struct value *victim = policy_prefix.victim(policy);
        assert_true(victim != &steady[0] && victim != &steady[1]);
    }
    policy_prefix.destroy(&policy);
}

/* Of values alike in all else, the one that costs least to have again goes, though it is the youngest. */
static void test_policy_prefix_keeps_what_is_dear(void **state)
{
    (void)state;
    struct value values[8];
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    for (unsigned i = 0; i < 8; i++) {
        values[i] =
            (struct value){.hash = test_mix(i), .length_bytes = 4096, .cost = i < 7 ? 12 : 2};
        policy_prefix.insert(policy, &values[i]);
    }
    assert_ptr_equal(test_evict(&policy_prefix, policy), &values[7]);
    assert_ptr_equal(test_evict(&policy_prefix, policy), &values[0]);
    policy_prefix.destroy(&policy);
}

/* A state that another one continues goes first, whoever is older. */
static void test_policy_prefix_drops_the_replaced_state(void **state)
{
    (void)state;
    struct value chain[3];
    test_chain(chain, 3, 40);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    chain[1].value_class = KVASIR_CLASS_STATE;
    chain[2].value_class = KVASIR_CLASS_STATE;
    for (unsigned i = 0; i < 3; i++) {
        policy_prefix.insert(policy, &chain[i]);
    }
    assert_ptr_equal(test_evict(&policy_prefix, policy), &chain[1]);
    policy_prefix.destroy(&policy);
}

/* What comes after its parent was evicted is worth nothing, and goes before older blocks. */
static void test_policy_prefix_drops_the_child_of_what_went(void **state)
{
    (void)state;
    struct value chain[4];
    struct value old = {.hash = test_mix(9000), .length_bytes = 4096};
    test_chain(chain, 4, 60);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    for (unsigned i = 0; i < 3; i++) {
        policy_prefix.insert(policy, &chain[i]);
    }
    assert_ptr_equal(test_evict(&policy_prefix, policy), &chain[2]);
    policy_prefix.insert(policy, &old);
    policy_prefix.insert(policy, &chain[3]);
    assert_ptr_equal(test_evict(&policy_prefix, policy), &chain[3]);
    policy_prefix.destroy(&policy);
}

/* Blocks of chains that wait to settle do not count here: others come after them. */
static void test_settle(struct policy *policy, struct value *others, unsigned count)
{
    test_chain(others, count, 7000);
    for (unsigned i = 0; i < count; i++) {
        policy_prefix.insert(policy, &others[i]);
    }
}

static void test_end(struct policy *policy, struct value *value)
{
    policy_prefix.end(policy, value);
    policy_prefix.remove(policy, value);
}

/* What continues a deleted block goes before all, however young and often read; what it continued stays. */
static void test_policy_prefix_drops_what_continues_a_deleted_block(void **state)
{
    (void)state;
    struct value chain[6];
    struct value others[20];
    test_chain(chain, 6, 60);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    for (unsigned i = 0; i < 6; i++) {
        policy_prefix.insert(policy, &chain[i]);
    }
    test_settle(policy, others, 20);
    for (unsigned i = 0; i < 6; i++) {
        policy_prefix.touch(policy, &chain[i]);
    }
    for (unsigned i = 0; i < 4; i++) {
        policy_prefix.touch(policy, &others[i]);
    }
    test_end(policy, &chain[2]);
    unsigned orphans_left = 3;
    for (unsigned i = 0; i < 9; i++) { /* a few may go before they are found */
        const struct value *value = test_evict(&policy_prefix, policy);
        assert_true(value != &chain[0] && value != &chain[1]);
        orphans_left -= value == &chain[3] || value == &chain[4] || value == &chain[5];
    }
    assert_int_equal(orphans_left, 0);
    policy_prefix.destroy(&policy);
}

/* The block behind a deleted one is looked at first, in a long queue too. */
static void test_policy_prefix_finds_the_next_of_a_deleted_block_at_once(void **state)
{
    (void)state;
    struct value chain[VALUES_MAX];
    struct value others[20];
    test_chain(chain, VALUES_MAX, 60);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    for (unsigned i = 0; i < VALUES_MAX; i++) {
        policy_prefix.insert(policy, &chain[i]);
    }
    test_settle(policy, others, 20);
    test_end(policy, &chain[VALUES_MAX / 2]);
    for (unsigned i = 1; i < 4; i++) {
        assert_ptr_equal(test_evict(&policy_prefix, policy), &chain[VALUES_MAX / 2 + i]);
    }
    policy_prefix.destroy(&policy);
}

/* A deleted block that comes again is not gone. */
static void test_policy_prefix_keeps_what_continues_a_block_that_came_again(void **state)
{
    (void)state;
    struct value chain[2];
    struct value others[20];
    test_chain(chain, 2, 60);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    policy_prefix.insert(policy, &chain[0]);
    policy_prefix.insert(policy, &chain[1]);
    test_settle(policy, others, 20);
    test_end(policy, &chain[0]);
    policy_prefix.remove(policy, &chain[1]);
    chain[0].policy_bits = chain[1].policy_bits = 0;
    policy_prefix.insert(policy, &chain[0]);
    policy_prefix.insert(policy, &chain[1]);
    for (unsigned i = 0; i < 10; i++) {
        const struct value *value = test_evict(&policy_prefix, policy);
        assert_true(value != &chain[0] && value != &chain[1]);
    }
    policy_prefix.destroy(&policy);
}

/* A block and what continues it are in two shards: there it is found when the notes say so. */
static void test_policy_prefix_finds_in_another_shard_what_continues_a_deleted_block(void **state)
{
    (void)state;
    struct value chain[2];
    struct value others[20];
    test_chain(chain, 2, 60);
    struct reuse *reuse = reuse_create(2, 0);
    struct policy *policies[2] = {policy_prefix.create(reuse, 0), policy_prefix.create(reuse, 1)};
    policy_prefix.insert(policies[0], &chain[0]);
    policy_prefix.insert(policies[1], &chain[1]);
    test_settle(policies[1], others, 20);
    policy_prefix.touch(policies[1], &chain[1]);
    test_end(policies[0], &chain[0]);
    bool found = false;
    for (unsigned i = 0; i < 10 && !found; i++) {
        found = test_evict(&policy_prefix, policies[1]) == &chain[1];
    }
    assert_true(found);
    policy_prefix.destroy(&policies[0]);
    policy_prefix.destroy(&policies[1]);
    reuse_destroy(&reuse);
}

/* Windows are of use without what they continue. */
static void test_policy_prefix_keeps_windows_behind_a_deleted_one(void **state)
{
    (void)state;
    struct value chain[8];
    struct value others[20];
    test_chain(chain, 8, 60);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    test_settle(policy, others, 20);
    for (unsigned i = 0; i < 8; i++) {
        chain[i].value_class = KVASIR_CLASS_WINDOW;
        policy_prefix.insert(policy, &chain[i]);
    }
    test_end(policy, &chain[3]);
    const struct value *victim = test_evict(&policy_prefix, policy);
    assert_true(victim == &chain[0] || (victim >= others && victim < others + 20));
    policy_prefix.destroy(&policy);
}

/* A block that is continued only after many others came still outlives what continues it. */
static void test_policy_prefix_keeps_what_was_continued_late(void **state)
{
    (void)state;
    struct value chain[3];
    struct value others[40];
    test_chain(chain, 3, 60);
    test_chain(others, 40, 6000);
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    policy_prefix.insert(policy, &chain[0]);
    policy_prefix.insert(policy, &chain[1]);
    for (unsigned i = 0; i < 40; i++) {
        policy_prefix.insert(policy, &others[i]);
    }
    policy_prefix.insert(policy, &chain[2]);
    bool after = false;
    for (const struct value *value; (value = test_evict(&policy_prefix, policy)) != NULL;) {
        assert_true(value != &chain[1] || after);
        after = after || value == &chain[2];
    }
    assert_true(after);
    policy_prefix.destroy(&policy);
}

#define SESSIONS 400U

/* Sessions of a chain of four blocks each; after each an older one comes back, without its last block. */
static void test_put_sessions(struct policy *policy, struct value (*chains)[4])
{
    for (unsigned i = 0; i < SESSIONS; i++) {
        test_chain(chains[i], 4, 10000 + 10 * i);
        for (unsigned j = 0; j < 4; j++) {
            policy_prefix.insert(policy, &chains[i][j]);
        }
        unsigned back = (unsigned)test_mix(i) % (i + 1);
        for (unsigned j = 0; j < 3; j++) {
            policy_prefix.touch(policy, &chains[back][j]);
        }
    }
}

/* What nothing followed was found never to return: it goes before older blocks. */
static void test_policy_prefix_drops_leaves_first(void **state)
{
    (void)state;
    static struct value chains[SESSIONS][4];
    struct policy *policy = policy_prefix.create(NULL, 0);
    assert_non_null(policy);
    test_put_sessions(policy, chains);
    for (unsigned i = 0; i < SESSIONS / 4; i++) {
        const struct value *value = test_evict(&policy_prefix, policy);
        assert_non_null(value);
        assert_int_equal((value - &chains[0][0]) % 4, 3);
    }
    policy_prefix.destroy(&policy);
}

static uint32_t test_turn(const struct reuse *reuse, const struct value *value)
{
    return reuse_find_note(reuse, value->hash).flags >> REUSE_NOTE_TURN_SHIFT & REUSE_NOTE_TURN_MAX;
}

/* What continues a chain belongs to it; what begins at a block that many continue is a chain of its own. */
static void test_policy_prefix_knows_the_turn_of_a_chain(void **state)
{
    (void)state;
    struct value chain[3];
    struct value others[5];
    struct value passing[40];
    struct reuse *reuse = reuse_create(1, 0);
    assert_non_null(reuse);
    struct policy *policy = policy_prefix.create(reuse, 0);
    assert_non_null(policy);
    test_chain(chain, 3, 60);
    test_chain(others, 5, 6000);
    test_chain(passing, 40, 7000);
    for (unsigned i = 0; i < 2; i++) {
        policy_prefix.insert(policy, &chain[i]);
    }
    for (unsigned turn = 1; turn < 6; turn++) {
        for (unsigned i = 0; i < 8; i++) {
            policy_prefix.insert(policy, &passing[8 * (turn - 1) + i]);
        }
        others[turn - 1].parent_hash = chain[0].hash;
        others[turn - 1].flags = VALUE_FLAG_PARENT;
        for (unsigned i = 0; i < 2; i++) {
            policy_prefix.touch(policy, &chain[i]);
        }
        policy_prefix.insert(policy, &others[turn - 1]);
        if (turn == 2) {
            policy_prefix.insert(policy, &chain[2]);
            assert_int_equal(test_turn(reuse, &chain[2]), 2);
        }
    }
    assert_int_equal(test_turn(reuse, &chain[0]), 3);
    assert_int_equal(test_turn(reuse, &others[4]), 0);
    policy_prefix.destroy(&policy);
    reuse_destroy(&reuse);
}

static void test_policy_fifo_evicts_what_was_never_read_first(void **state)
{
    (void)state;
    struct value values[3];
    test_chain(values, 3, 20);
    struct policy *policy = policy_fifo.create(NULL, 0);
    assert_non_null(policy);
    for (unsigned i = 0; i < 3; i++) {
        policy_fifo.insert(policy, &values[i]);
    }
    policy_fifo.touch(policy, &values[0]);
    assert_ptr_equal(test_evict(&policy_fifo, policy), &values[1]);
    assert_ptr_equal(test_evict(&policy_fifo, policy), &values[2]);
    policy_fifo.insert(policy, &values[1]); /* came back: as good as read */
    policy_fifo.insert(policy, &(struct value){0});
    assert_ptr_not_equal(policy_fifo.victim(policy), &values[1]);
    policy_fifo.destroy(&policy);
}

static unsigned test_seed(void)
{
    const char *text = getenv("KVASIR_SEED");
    unsigned seed = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 1;
    print_message("KVASIR_SEED=%u\n", seed);
    return seed;
}

struct test_account {
    const struct policy_ops *ops;
    struct policy *policy;
    struct value values[VALUES_MAX];
    bool inside[VALUES_MAX];
    unsigned inside_count;
};

static void test_random_step(struct test_account *account, uint64_t random)
{
    unsigned i = (unsigned)(random >> 8) % VALUES_MAX;
    if (random % 8 < 3 && account->inside[i]) {
        account->ops->touch(account->policy, &account->values[i]);
    } else if (random % 8 < 6 && !account->inside[i]) {
        account->ops->insert(account->policy, &account->values[i]);
        account->inside[i] = true;
        account->inside_count++;
    } else if (random % 8 == 6 && account->inside[i]) {
        if (random >> 32 & 1 && account->ops->end != NULL) {
            account->ops->end(account->policy, &account->values[i]);
        }
        account->ops->remove(account->policy, &account->values[i]);
        account->inside[i] = false;
        account->inside_count--;
    } else if (random % 8 == 7) {
        const struct value *victim = test_evict(account->ops, account->policy);
        assert_int_equal(victim == NULL, account->inside_count == 0);
        if (victim != NULL) {
            assert_true(account->inside[victim - account->values]);
            account->inside[victim - account->values] = false;
            account->inside_count--;
        }
    }
}

static void test_random(const struct policy_ops *ops)
{
    struct test_account account = {.ops = ops, .policy = ops->create(NULL, 0)};
    assert_non_null(account.policy);
    test_chain(account.values, VALUES_MAX, 77);
    for (unsigned i = 0; i < VALUES_MAX; i++) {
        account.values[i].expires_at_ms = 1 + i % 7;
        account.values[i].length_bytes = i % 5 == 0 ? 0 : 1000U * i;
        account.values[i].parent_hash = account.values[test_mix(i) % VALUES_MAX].hash; /* cycles */
    }
    uint64_t random = test_seed();
    for (unsigned i = 0; i < RANDOM_STEPS; i++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        test_random_step(&account, random >> 20);
    }
    while (account.inside_count > 0) {
        assert_non_null(test_evict(ops, account.policy));
        account.inside_count--;
    }
    assert_null(ops->victim(account.policy));
    ops->destroy(&account.policy);
}

static void test_policies_name_exactly_who_is_inside(void **state)
{
    (void)state;
    for (unsigned i = 0; policy_at(i) != NULL; i++) {
        test_random(policy_at(i));
    }
}

static void test_policies_report_no_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; policy_at(i) != NULL; i++) {
        fault_arm("store.policy", 1, 1);
        assert_null(policy_at(i)->create(NULL, 0));
        fault_disarm_all();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_prefix_evicts_chains_from_their_tails),
        cmocka_unit_test(test_policy_prefix_takes_a_parent_that_is_its_own),
        cmocka_unit_test(test_policy_prefix_keeps_what_comes_back),
        cmocka_unit_test(test_policy_prefix_keeps_what_is_dear),
        cmocka_unit_test(test_policy_prefix_drops_the_replaced_state),
        cmocka_unit_test(test_policy_prefix_drops_the_child_of_what_went),
        cmocka_unit_test(test_policy_prefix_drops_what_continues_a_deleted_block),
        cmocka_unit_test(test_policy_prefix_finds_the_next_of_a_deleted_block_at_once),
        cmocka_unit_test(test_policy_prefix_keeps_what_continues_a_block_that_came_again),
        cmocka_unit_test(test_policy_prefix_finds_in_another_shard_what_continues_a_deleted_block),
        cmocka_unit_test(test_policy_prefix_keeps_windows_behind_a_deleted_one),
        cmocka_unit_test(test_policy_prefix_keeps_what_was_continued_late),
        cmocka_unit_test(test_policy_prefix_drops_leaves_first),
        cmocka_unit_test(test_policy_prefix_knows_the_turn_of_a_chain),
        cmocka_unit_test(test_policy_fifo_evicts_what_was_never_read_first),
        cmocka_unit_test(test_policies_name_exactly_who_is_inside),
        cmocka_unit_test(test_policies_report_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

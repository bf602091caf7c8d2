/* test_mailbox – messages between reactors: order, rings that are full, sleeping and waking. */

#include "net/mailbox.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* More chains than a ring holds. */
#define MANY 1000U

static bool is_readable(int descriptor)
{
    struct pollfd wait = {.fd = descriptor, .events = POLLIN};
    return poll(&wait, 1, 0) == 1;
}

static void test_mailbox_delivers_in_order_of_each_sender(void **state)
{
    struct mailbox *mailbox = mailbox_create(3);
    struct mail mails[6] = {0};
    (void)state;
    assert_non_null(mailbox);
    for (uint32_t i = 0; i < 6; i++) {
        mails[i].kind = i;
        mailbox_send(mailbox, i % 2 == 0 ? 0 : 1, 2, &mails[i]);
    }
    assert_null(mailbox_receive(mailbox, 2));
    assert_true(mailbox_flush(mailbox, 0));
    assert_true(mailbox_flush(mailbox, 1));
    struct mail *mail = mailbox_receive(mailbox, 2);
    static const uint32_t expected[] = {0, 2, 4, 1, 3, 5};
    for (size_t i = 0; i < 6; i++) {
        assert_non_null(mail);
        assert_int_equal(mail->kind, expected[i]);
        assert_int_equal(mail->from, expected[i] % 2);
        mail = mail->next;
    }
    assert_null(mail);
    assert_null(mailbox_receive(mailbox, 2));
    mailbox_destroy(&mailbox);
    assert_null(mailbox);
}

static void test_mailbox_keeps_what_a_full_ring_refuses(void **state)
{
    struct mailbox *mailbox = mailbox_create(2);
    static struct mail mails[MANY];
    uint32_t received = 0;
    bool refused = false;
    (void)state;
    assert_non_null(mailbox);
    for (uint32_t i = 0; i < MANY; i++) {
        mails[i] = (struct mail){.kind = i};
        mailbox_send(mailbox, 0, 1, &mails[i]);
        refused = !mailbox_flush(mailbox, 0) || refused;
    }
    assert_true(refused);
    for (int turn = 0; turn < 2; turn++) {
        for (struct mail *mail = mailbox_receive(mailbox, 1); mail != NULL; mail = mail->next) {
            assert_int_equal(mail->kind, received);
            received++;
        }
        assert_true(mailbox_flush(mailbox, 0));
    }
    assert_int_equal(received, MANY);
    mailbox_destroy(&mailbox);
}

static void test_mailbox_wakes_only_who_sleeps(void **state)
{
    struct mailbox *mailbox = mailbox_create(2);
    struct mail mails[3] = {0};
    int descriptor;
    (void)state;
    assert_non_null(mailbox);
    descriptor = mailbox_descriptor(mailbox, 1);
    mailbox_send(mailbox, 0, 1, &mails[0]);
    assert_true(mailbox_flush(mailbox, 0));
    assert_false(is_readable(descriptor));
    assert_false(mailbox_sleep(mailbox, 1));
    assert_non_null(mailbox_receive(mailbox, 1));
    assert_true(mailbox_sleep(mailbox, 1));
    mailbox_send(mailbox, 0, 1, &mails[1]);
    assert_false(is_readable(descriptor));
    assert_true(mailbox_flush(mailbox, 0));
    assert_true(is_readable(descriptor));
    mailbox_wake(mailbox, 1);
    assert_false(is_readable(descriptor));
    assert_non_null(mailbox_receive(mailbox, 1));
    mailbox_send(mailbox, 0, 1, &mails[2]);
    assert_true(mailbox_flush(mailbox, 0));
    assert_false(is_readable(descriptor));
    mailbox_destroy(&mailbox);
}

/* ---- two threads that send each other's messages back until each has had its turns ---- */

#define PLAYERS  2U
#define BALLS    50U
#define TURNS    2000U
#define LIMIT_MS 20000

struct player {
    struct mailbox *mailbox; /* borrowed */
    uint32_t me;
    struct mail balls[BALLS];
    uint64_t returned; /* own balls that came back */
    bool late;
};

static void play(struct player *player, struct mail *mail)
{
    while (mail != NULL) {
        struct mail *next = mail->next;
        uint32_t other = 1 - player->me;
        bool own = mail >= player->balls && mail < player->balls + BALLS;
        player->returned += own;
        if (!own || mail->kind < TURNS) {
            mail->kind += own;
            mailbox_send(player->mailbox, player->me, other, mail);
        }
        mail = next;
    }
}

static void *player_main(void *argument)
{
    struct player *player = argument;
    for (uint32_t i = 0; i < BALLS; i++) {
        player->balls[i].kind = 1;
        mailbox_send(player->mailbox, player->me, 1 - player->me, &player->balls[i]);
    }
    uint64_t idle = 0;
    while (!player->late && (player->returned < BALLS * TURNS || idle < 3)) {
        struct mail *mail = mailbox_receive(player->mailbox, player->me);
        play(player, mail);
        bool flushed = mailbox_flush(player->mailbox, player->me);
        bool done = player->returned == BALLS * TURNS;
        if (flushed && mailbox_sleep(player->mailbox, player->me)) {
            struct pollfd wait = {.fd = mailbox_descriptor(player->mailbox, player->me),
                                  .events = POLLIN};
            int ready = poll(&wait, 1, done ? 200 : LIMIT_MS);
            player->late = ready == 0 && !done;
            idle = ready == 0 ? 3 : 0;
            mailbox_wake(player->mailbox, player->me);
        }
    }
    return NULL;
}

static void test_mailbox_loses_no_message_and_no_wake(void **state)
{
    struct mailbox *mailbox = mailbox_create(PLAYERS);
    static struct player players[PLAYERS];
    pthread_t threads[PLAYERS];
    (void)state;
    assert_non_null(mailbox);
    for (uint32_t i = 0; i < PLAYERS; i++) {
        players[i] = (struct player){.mailbox = mailbox, .me = i};
    }
    for (uint32_t i = 0; i < PLAYERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, player_main, &players[i]), 0);
    }
    for (uint32_t i = 0; i < PLAYERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (uint32_t i = 0; i < PLAYERS; i++) {
        assert_false(players[i].late);
        assert_int_equal(players[i].returned, BALLS * TURNS);
    }
    mailbox_destroy(&mailbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mailbox_delivers_in_order_of_each_sender),
        cmocka_unit_test(test_mailbox_keeps_what_a_full_ring_refuses),
        cmocka_unit_test(test_mailbox_wakes_only_who_sleeps),
        cmocka_unit_test(test_mailbox_loses_no_message_and_no_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

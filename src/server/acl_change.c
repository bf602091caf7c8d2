#include "server/acl_change.h"

#include "base/check.h"
#include "base/fault.h"
#include "base/log.h"
#include "server/access.h"
#include "server/gather.h"
#include "server/users_file.h"

#include <stdlib.h>

static const char ERROR_NO_MEMORY[] = "out of memory for this change";

bool acl_change_start(struct conn *conn, enum acl_change_kind kind, const struct slice *args,
                      uint32_t arg_count)
{
    struct reactor *reactor = conn->reactor;
    struct acl_change *change = fault_hit("server.acl") ? NULL : calloc(1, sizeof(*change));
    if (change == NULL) {
        return false;
    }
    check(conn->acl_change == NULL);
    change->kind = kind;
    change->origin = reactor->index;
    change->caller = conn->id;
    change->batch = conn->batch;
    change->args = args;
    change->arg_count = arg_count;
    conn->acl_change = change;
    conn->batch->waiting++;
    reactor->errand_count++;
    if (reactor->index == 0) {
        acl_change_execute(reactor, change);
    } else {
        change->mail.kind = MAIL_ACL;
        mailbox_send(reactor->server->mailbox, reactor->index, 0, &change->mail);
    }
    return true;
}

void acl_change_destroy(struct acl_change **change_p)
{
    struct acl_change *change = *change_p;
    if (change == NULL) {
        return;
    }
    text_fini(&change->error);
    free(change);
    *change_p = NULL;
}

void acl_change_returned(struct reactor *reactor, struct acl_change *change)
{
    reactor->errand_count--;
    batch_waited(reactor, change->batch);
}

/* ---- on reactor 0 ---- */

static void send_back(struct reactor *reactor, struct acl_change *change)
{
    if (change->origin == reactor->index) {
        acl_change_returned(reactor, change);
        return;
    }
    change->mail.kind = MAIL_ACL_DONE;
    mailbox_send(reactor->server->mailbox, reactor->index, change->origin, &change->mail);
}

/* Makes change->after, which changes nothing yet. False: error says why not. */
static bool make_table(struct reactor *reactor, struct acl_change *change)
{
    const struct settings *settings = &reactor->settings;
    bool all_channels = strcmp(settings->acl_pubsub_default, "allchannels") == 0;
    if (change->kind == ACL_CHANGE_LOAD) {
        return users_file_load(settings, change->before, &change->after, &change->error);
    }
    change->after = acl_table_copy(change->before);
    if (change->after == NULL) {
        text_add_text(&change->error, ERROR_NO_MEMORY);
        return false;
    }
    switch (change->kind) {
    case ACL_CHANGE_SET_USER:
        return acl_table_set_user(change->after, change->args[0], change->args + 1,
                                  change->arg_count - 1, all_channels, &change->error);
    case ACL_CHANGE_REMOVE:
        for (uint32_t i = 0; i < change->arg_count; i++) {
            change->count += acl_table_remove(change->after, change->args[i]);
        }
        return true;
    case ACL_CHANGE_REQUIRE:
        if (acl_table_require(change->after, change->args[0])) {
            return true;
        }
        text_add_text(&change->error, ERROR_NO_MEMORY);
        return false;
    case ACL_CHANGE_LOAD:
        break;
    }
    unreachable();
}

static void publish_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    const struct acl_change *change = gather->pointer;
    gather->answers[index].self =
        access_update(reactor, change->after, change->kind == ACL_CHANGE_LOAD, change->caller);
}

/* Every reactor has the new table, so nobody looks at the one before any more. */
static void publish_done(struct reactor *reactor, struct gather *gather)
{
    struct acl_change *change = gather->pointer;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        change->caller_ends = change->caller_ends || gather->answers[i].self;
    }
    gather_destroy(&gather);
    acl_table_destroy(&change->before);
    send_back(reactor, change);
}

void acl_change_execute(struct reactor *reactor, struct acl_change *change)
{
    struct gather *gather = gather_create(reactor, publish_run, publish_done);
    check(reactor->index == 0);
    change->before = reactor->server->acl;
    if (gather == NULL) {
        text_add_text(&change->error, ERROR_NO_MEMORY);
    }
    if (gather == NULL || !make_table(reactor, change)) {
        change->refused = true;
        gather_destroy(&gather);
        acl_table_destroy(&change->after);
        send_back(reactor, change);
        return;
    }
    reactor->server->acl = change->after;
    gather->pointer = change;
    (void)gather_start(reactor, gather, NULL);
}

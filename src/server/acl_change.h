#pragma once
/* acl_change – a change of the users, for one request. Reactor 0 makes all of them, one after the other,
 * so that every reactor sees the same: the request's reactor sends it the change, it makes a new table and
 * has all reactors take it over, then the change goes back and the request is answered. Nobody locks. */

#include "acl/acl_table.h"
#include "net/mailbox.h"

struct batch;
struct conn;
struct reactor;
struct settings;

enum acl_change_kind {
    ACL_CHANGE_SET_USER, /* args: name, rules */
    ACL_CHANGE_REMOVE,   /* args: names */
    ACL_CHANGE_LOAD,     /* from aclfile */
    ACL_CHANGE_REQUIRE,  /* args: the password, requirepass */
};

struct acl_change {
    struct mail mail;
    enum acl_change_kind kind;
    uint32_t origin;
    uint64_t caller;          /* the connection that asks */
    struct batch *batch;      /* borrowed: waits */
    const struct slice *args; /* borrowed: the request's, which stays until it is answered */
    uint32_t arg_count;
    bool caller_ends; /* out: to be closed when it is answered */
    bool refused;     /* out: error says why, and nothing has changed */
    int64_t count;    /* out: users removed */
    struct text error;
    struct acl_table *before; /* owned by reactor 0 while the change is under way */
    struct acl_table *after;
};

/* Begins a change; the connection's batch waits for it, and conn->acl_change is it. False: no memory. */
bool acl_change_start(struct conn *conn, enum acl_change_kind kind, const struct slice *args,
                      uint32_t arg_count);
void acl_change_destroy(struct acl_change **change_p);

/* Mail: reactor 0 makes the change; it came back. */
void acl_change_execute(struct reactor *reactor, struct acl_change *change);
void acl_change_returned(struct reactor *reactor, struct acl_change *change);

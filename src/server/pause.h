#pragma once
/* pause – CLIENT PAUSE: requests of a reactor's connections that are not begun before a time, and keys of
 * its shard that are kept though they expired. All reactors are told alike. Used by the reactor's thread;
 * embedded in the reactor. Whoever waits holds its input and nothing else, so that however many wait,
 * others are served. */

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct reactor;
struct request;

struct pause {
    int64_t until_us;    /* monotonic; 0: there is none */
    bool all;            /* not only what writes */
    struct list waiting; /* connections, by batch_link */
};

/* Lengthens and widens what there is, as in Redis. */
void pause_begin(struct reactor *reactor, int64_t until_us, bool all);
/* Whoever waited goes on. */
void pause_end(struct reactor *reactor);
void pause_tick(struct reactor *reactor);

/* There is a pause: must the connection wait before it takes its next request, because it could not give
 * it back? */
bool pause_holds_conn(const struct conn *conn);
/* There is a pause: must the request wait? */
bool pause_holds(const struct conn *conn, const struct request *request);
/* The connection is called when the pause has ended. */
void pause_wait(struct conn *conn);
/* It goes on, or ends. */
void pause_forget(struct conn *conn);

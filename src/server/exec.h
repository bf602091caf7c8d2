#pragma once
/* exec – runs a transaction: holds the shards of its keys, so that nobody sees or changes one of them
 * between two commands, and runs its commands one after the other on this thread. Used by the
 * connection's thread, outside any work on a shard: who holds shards waits for nothing but further
 * shards, in the order of their numbers, and those who hold those do the same. */

#include "base/slice.h"

#include <kvasir/types.h>

#include <stdbool.h>

struct conn;

/* Runs the connection's transaction and writes its reply, or goes on with it. False: a command waits for
 * other reactors (INFO, CONFIG SET, CLIENT LIST …), for which the shards were let go; to be called again
 * when the batch waits for nothing any more. */
bool exec_advance(struct conn *conn);

/* Watches a key of the connection's database. KVASIR_OK, KVASIR_INVALID (a key longer than any),
 * KVASIR_NO_MEMORY, KVASIR_BUSY (too many are watched). */
enum kvasir_status exec_watch(struct conn *conn, struct slice key);
/* Nothing is watched any more. */
void exec_unwatch(struct conn *conn);

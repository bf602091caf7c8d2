#pragma once
/* key_notice – keyspace notifications: what a shard notes of its keys goes into its reactor's feed, and
 * every reactor publishes it to its own subscribers. While notify-keyspace-events is empty nothing is
 * noted. Used by the reactor's thread. */

#include "base/slice.h"
#include "server/notice_classes.h"

struct reactor;

/* The setting is new: at the start and by CONFIG SET. */
void key_notice_configure(struct reactor *reactor);
/* What the shard has noted since the last turn goes into the feed. Not from inside the shard's gate. */
void key_notice_collect(struct reactor *reactor);

/* One of them comes out of a feed. */
void key_notice_deliver(struct reactor *reactor, struct slice record);
/* Some of them are lost: whoever listens to such channels is closed, so that he knows. */
void key_notice_cut_all(struct reactor *reactor);

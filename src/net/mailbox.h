#pragma once
/* mailbox – messages between the reactors of one process. Each pair of reactors has a bounded ring of
 * its own; a reactor collects what it has for another during a turn and sends it as one chain, and
 * wakes the other by its eventfd only when it sleeps. A message belongs to whoever holds it; the
 * sender gets it back as a message the other way.
 *
 * Bounded: a chain that finds the ring full stays with the sender and goes with the next flush, and
 * what a reactor can have out is bounded by its connections and pools. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

struct mail {
    struct mail *next; /* the mailbox's own while the message is under way */
    uint32_t kind;     /* the user's */
    uint32_t from;     /* index of the sender */
};

struct mailbox;

/* For reactor_count reactors. NULL when out of memory or descriptors. Main, before they start. */
struct mailbox *mailbox_create(uint32_t reactor_count);
void mailbox_destroy(struct mailbox **mailbox_p);

/* The descriptor that becomes readable when reactor me is to wake. */
int mailbox_descriptor(const struct mailbox *mailbox, uint32_t me);

/* Reactor me: collects a message for another; it leaves with the next flush. */
void mailbox_send(struct mailbox *mailbox, uint32_t me, uint32_t to, struct mail *mail);
/* Reactor me, at the end of a turn: sends what was collected. False: a ring was full, call again. */
bool mailbox_flush(struct mailbox *mailbox, uint32_t me);
/* Reactor me: all that has arrived, as a chain in order of arrival per sender; NULL: nothing. */
struct mail *mailbox_receive(struct mailbox *mailbox, uint32_t me);

/* Reactor me is about to sleep: true when it may, that is, when nothing has arrived. Every sender
 * from now on wakes it. */
bool mailbox_sleep(struct mailbox *mailbox, uint32_t me);
/* Reactor me has woken. */
void mailbox_wake(struct mailbox *mailbox, uint32_t me);

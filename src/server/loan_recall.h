#pragma once
/* loan_recall – a key's end reaches those who lend its value: what a shard notes is told to all reactors, and
 * each revokes what its connections have lent of it. Used by the reactor's thread. */

struct reactor;

/* What the own shard has noted since the last turn goes to all; one message at a time, what is noted
 * meanwhile goes with the next. Not from inside the shard's gate. */
void loan_recall_collect(struct reactor *reactor);

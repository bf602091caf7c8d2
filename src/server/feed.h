#pragma once
/* feed – what one reactor has to tell those who listen on any reactor without having asked just now:
 * lines for MONITOR, and what happened to keys. Collected during a turn and sent to all reactors at its end, in order. Used by the
 * reactor's thread. Embedded in the reactor; owns the bytes, which count against
 * client-query-buffer-limit.
 *
 * Bounded: what does not fit any more is lost, and whoever should have got it is cut, so that nobody
 * takes what is left for the whole. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reactor;

/* Of one reactor: collected and on their way. */
#define FEED_BYTES_MAX (8U << 20)

/* What it can tell. */
enum feed_kind {
    FEED_MONITOR,    /* a line for MONITOR */
    FEED_KEY_NOTICE, /* what happened to a key: see key_notice.h */
};

struct feed {
    uint8_t *bytes; /* owned: of this turn, each with its kind and length before it; NULL: none */
    size_t length_bytes;
    size_t capacity_bytes;
    size_t held_bytes; /* of memory, with what is on its way */
    bool lost;         /* something did not fit since the last flush */
};

/* Room for one of at most bytes_max; NULL: it is lost. feed_add says how long it is. */
uint8_t *feed_reserve(struct reactor *reactor, enum feed_kind kind, size_t bytes_max);
void feed_add(struct reactor *reactor, size_t length_bytes);
/* The end of a turn. */
void feed_flush(struct reactor *reactor);
void feed_fini(struct reactor *reactor);

static inline bool feed_is_empty(const struct feed *feed)
{
    return feed->length_bytes == 0 && !feed->lost;
}

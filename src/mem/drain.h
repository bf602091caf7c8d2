#pragma once
/* drain – empties one page of a shard so that it goes back to the common pool: closes it, so that
 * nothing new is placed there, and names its runs one after the other for their owner to move. The
 * shard's thread; at most one page of a shard is closed at a time. Owns nothing. */

#include "base/compiler.h"
#include "mem/runs.h"

#include <stdbool.h>
#include <stdint.h>

/* How full a page is, in 64ths. */
#define DRAIN_LEVEL_FULL 64U

/* The page held that is least full, no fuller than level_max 64ths; PAGES_NONE: there is none. */
uint32_t drain_find_page(struct runs *runs, uint32_t level_max);
/* No page may be closed. */
void drain_close(struct runs *runs, uint32_t page);
/* PAGES_NONE: none is closed, or the one that was is empty and has gone back to the pool. */
uint32_t drain_closed_page(const struct runs *runs);
/* Some run in the closed page and its owner. */
void drain_find_run(const struct runs *runs, struct run *run_p, uint32_t *owner_p);
/* Gives up: the page takes runs again, and is not found before drain_look_again. */
void drain_reopen(struct runs *runs);
/* Up to count_max of the pages that were given up are found again. */
void drain_look_again(struct runs *runs, uint32_t count_max);
/* While set, no page is taken from the pool: what is moved goes into the holes of other pages. */
void drain_keep_to_held(struct runs *runs, bool is_kept);

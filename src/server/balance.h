#pragma once
/* balance – memory for the shard that needs it most: a reactor whose shard evicts what was used a moment
 * ago has pages given by the shard whose values lie unused for longest. Called by the reactor's own
 * thread on its ticks; the others are asked by mail. Owns nothing. */

#include <stdint.h>

struct gather;
struct reactor;

/* Says in the metrics how old this shard's values are, and asks for pages when it pays. */
void balance_tick(struct reactor *reactor);
/* Divides page_count pages that shards are to give: each page falls to the one that then holds most. What
 * reactor i is to give is gather->answers[i].number; except, if it is a reactor, gives nothing. */
void balance_divide(const struct reactor *reactor, struct gather *gather, uint32_t page_count,
                    uint32_t except);

#pragma once
/* balance – memory for the shard that needs it most: a reactor whose shard evicts what was used a moment
 * ago has pages given by the shard whose values lie unused for longest. Called by the reactor's own
 * thread on its ticks; the others are asked by mail. Owns nothing. */

struct reactor;

/* Says in the metrics how old this shard's values are, and asks for pages when it pays. */
void balance_tick(struct reactor *reactor);

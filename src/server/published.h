#pragma once
/* published – what a reactor tells the others about itself ten times a second, in its metrics: memory in
 * use, and rates. Called by the reactor on its own thread. Owns nothing. */

struct reactor;

void published_tick(struct reactor *reactor);

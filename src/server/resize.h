#pragma once
/* resize – CONFIG SET maxmemory while the server runs: pages of payload are given back to the kernel or
 * had from it, step by step, until there are as many as the new limit allows. The first reactor's thread
 * does it on its ticks and asks the others by mail to make room. Owns nothing. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reactor;
struct server;

/* Pages of payload under such a maxmemory: what the fixed shares leave, less the tables of the pages. */
uint64_t resize_page_count(const struct server *server, uint64_t maxmemory);
/* False: error says why maxmemory cannot become this, and what it can be. */
ATTR_MUST_USE bool resize_is_allowed(const struct server *server, uint64_t maxmemory, char *error,
                                     size_t error_capacity);
/* The longest value under the reactor's settings. A maxmemory that was lowered counts at once, though
 * the pages go step by step: nothing is evicted for a value that soon would not fit. */
uint64_t resize_value_max(const struct reactor *reactor);
/* The settings changed, on any reactor's thread: free pages beyond maxmemory cannot be taken from now on, so
 * that no value is put where there soon is no memory. Ticks give them to the kernel. */
void resize_configure(struct reactor *reactor);
/* A few pages at most. */
void resize_tick(struct reactor *reactor);

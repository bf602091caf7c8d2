#pragma once
/* random – small seeded generator (xoshiro256**, Blackman and Vigna 2018) for tests, jitter and
 * sampling; not for secrets (those come from getrandom). One thread per object. */

#include <stdint.h>

struct random {
    uint64_t state[4];
};

void random_init(struct random *random, uint64_t seed);
uint64_t random_u64(struct random *random);
/* Uniform in 0 … bound-1; bound > 0. */
uint64_t random_below(struct random *random, uint64_t bound);

#include "base/random.h"

#include "base/check.h"

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

/* SplitMix64 (Steele, Lea and Flood 2014) spreads one seed over the state, so that near seeds give
 * unrelated sequences and the state is never all zero. */
void random_init(struct random *random, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15U;
        uint64_t x = seed;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
        x = (x ^ x >> 27) * 0x94d049bb133111ebU;
        random->state[i] = x ^ x >> 31;
    }
}

uint64_t random_u64(struct random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t random_below(struct random *random, uint64_t bound)
{
    check(bound > 0);
    /* The lowest 2^64 mod bound numbers would make small results likelier: draw again then, which
     * happens less than every other time. */
    uint64_t reject_below = (0U - bound) % bound;
    uint64_t drawn;
    do {
        drawn = random_u64(random);
    } while (drawn < reject_below);
    return drawn % bound;
}

#pragma once
/* test_seed – the seed of a random test: from KVASIR_SEED when it is set, else from the clock, and
 * printed, so that a failure can be run again. Called once by a test, on its thread. */

#include "base/clock.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline uint64_t test_seed(void)
{
    const char *text = getenv("KVASIR_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : (uint64_t)clock_mono_us();
    (void)printf("KVASIR_SEED=%" PRIu64 "\n", seed);
    return seed;
}

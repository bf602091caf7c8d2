#pragma once
/* glob – Redis's pattern language (KEYS, SCAN MATCH, CONFIG GET): * ? [abc] [^a-z] and backslash.
 * Any thread; owns nothing. Time is bounded: runs of * do not multiply (no recursion; the last star
 * is the only one that is ever tried again), and what still takes more than GLOB_STEPS_MIN steps and
 * GLOB_STEPS_PER_BYTE for each byte of pattern and text does not match (Redis, too, gives up on what
 * nests too deep). A step looks at a byte of the pattern. */

#include "base/slice.h"

#define GLOB_STEPS_MIN      (1U << 20)
#define GLOB_STEPS_PER_BYTE 16U

bool glob_match(struct slice pattern, struct slice text, bool ignore_case);
/* The same; the steps it took are added to *steps_p. */
bool glob_match_counted(struct slice pattern, struct slice text, bool ignore_case,
                        uint64_t *steps_p);

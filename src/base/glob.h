#pragma once
/* glob – Redis's pattern language (KEYS, SCAN MATCH, CONFIG GET): * ? [abc] [^a-z] and backslash.
 * Any thread; owns nothing. Time is bounded: runs of * do not multiply (no recursion; the last star
 * is the only one that is ever tried again). */

#include "base/slice.h"

bool glob_match(struct slice pattern, struct slice text, bool ignore_case);

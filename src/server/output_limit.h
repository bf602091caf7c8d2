#pragma once
/* output_limit – how much may wait for a client that does not read, by the class of client, as in Redis:
 * "normal 64mb 16mb 60" closes a connection when 64 MiB wait for it, or 16 MiB for 60 seconds without
 * a break. Plain data, parsed from client-output-buffer-limit; any thread. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum output_class {
    OUTPUT_CLASS_NORMAL,
    OUTPUT_CLASS_REPLICA, /* accepted for Redis's tools; no client is one */
    OUTPUT_CLASS_PUBSUB,
    OUTPUT_CLASS_COUNT,
};

struct output_limit {
    uint64_t hard_bytes; /* 0: none */
    uint64_t soft_bytes; /* 0: none */
    uint64_t soft_s;
};

struct output_limits {
    struct output_limit classes[OUTPUT_CLASS_COUNT];
};

/* Changes the classes that the text names: "CLASS HARD SOFT SECONDS …". False: it is malformed, and
 * nothing has changed. */
ATTR_MUST_USE bool output_limits_parse(struct output_limits *limits, struct slice text);
/* In the form that CONFIG GET shows. */
void output_limits_format(const struct output_limits *limits, char *text, size_t capacity);

/* True when so much is too much for the class. *soft_since_us_p remembers since when the soft limit has
 * been passed, 0: it is not. */
bool output_limit_is_passed(const struct output_limit *limit, uint64_t pending_bytes,
                            int64_t now_us, int64_t *soft_since_us_p);

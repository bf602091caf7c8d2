#pragma once
/* rdb_string – what DUMP makes of a value and RESTORE takes: a string as it stands in Redis's files, the
 * version of that format, and a CRC64. Any thread; owns nothing. */

#include "base/compiler.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version that is written; what is newer is refused, as by Redis 7.0. */
#define RDB_VERSION          10U
#define RDB_HEAD_BYTES_MAX   10U
#define RDB_TRAILER_BYTES    10U
#define RDB_NUMBER_BYTES_MAX 12U
/* The checksum stands behind all that it is made of: the version, too. */
#define RDB_CHECKSUM_BYTES 8U

/* Before a value's bytes; returns its length. */
size_t rdb_string_head(uint8_t to[RDB_HEAD_BYTES_MAX], uint64_t length_bytes);
/* Behind them; sum: of head and bytes. */
void rdb_string_trailer(uint8_t to[RDB_TRAILER_BYTES], uint64_t sum);

/* Whether it may be a dump: long enough, and of a version that is known. sum: of all but the last
 * RDB_CHECKSUM_BYTES. */
bool rdb_string_version_ok(struct slice dump);
bool rdb_string_sum_ok(struct slice dump, uint64_t sum);

enum rdb_form {
    RDB_PLAIN,      /* bytes */
    RDB_NUMBER,     /* bytes, which lie in number_text */
    RDB_COMPRESSED, /* bytes are LZF of length_bytes */
};

struct rdb_string {
    enum rdb_form form;
    struct slice bytes;
    uint64_t length_bytes; /* of the value */
    char number_text[RDB_NUMBER_BYTES_MAX];
};

/* False: it is no string, or malformed. string: must stay where it is, bytes may point into it. */
ATTR_MUST_USE bool rdb_string_decode(struct slice dump, struct rdb_string *string);
/* LZF. False: it does not give exactly length_bytes. */
ATTR_MUST_USE bool rdb_string_decompress(struct slice from, uint8_t *to, size_t length_bytes);

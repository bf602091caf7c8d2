#pragma once
/* checksum – XXH3-64 of payload as it lies in the store. Used by the connection's thread. */

#include "mem/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct pages;
struct request;
struct value;

/* Of a filled value, which the caller has pinned. */
uint64_t checksum_of_value(const struct pages *payload, const struct value *value);
/* Whether the payload of a put (args[2], in the buffer or uploaded) has this checksum; true when the
 * upload failed, which is told otherwise. */
bool checksum_matches(const struct conn *conn, const struct request *request, uint64_t expected);

#pragma once
/* crc64 – the checksum of Redis's dumps (polynomial of Jones, reflected). Any thread; owns nothing. */

#include "base/slice.h"

#include <stdint.h>

/* Goes on with a sum, 0 at the beginning; about 400 MB a second. */
uint64_t crc64_add(uint64_t sum, struct slice bytes);

#pragma once
/* digest – XXH3-64 of a payload that lies in pieces. Called by the client's thread; owns nothing. */

#include <stdint.h>
#include <sys/uio.h>

#define DIGEST_TEXT_BYTES 16

uint64_t digest_of_segments(const struct iovec *segments, uint32_t segment_count);
/* 16 lower-case hexadecimal digits, no terminator. */
void digest_to_text(uint64_t digest, char text[DIGEST_TEXT_BYTES]);

#pragma once
/* spread – an item's memory as the server is told of it: in parts, each by the queue pair that is to move it.
 * Long ones are spread over all queue pairs whose devices are nearest to the memory, short ones go to those in
 * turn; the others serve when none of the nearest does. One thread; owns nothing. */

#include <stdint.h>
#include <sys/uio.h>

struct link;

struct stripe {
    uint64_t address;
    uint64_t bytes;
    uint64_t key; /* with the queue pair's index in the bits from 32 on */
};

/* Returns how many parts there are; 0: no queue pair reaches all of it, or there are more than capacity. */
unsigned spread_expose(struct link *link, const struct iovec *segments, uint32_t segment_count,
                       struct stripe *stripes, unsigned capacity);

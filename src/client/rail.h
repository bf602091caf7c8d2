#pragma once
/* rail – which of this machine's devices speaks to which of the server's, where one of them has several:
 * a queue pair for each rail. Any thread; owns nothing. */

#include <kvasir/transport_types.h>

#include <stdint.h>

#define RAILS_MAX 4U

struct rail {
    uint32_t own;
    uint32_t server;
};

/* Every device of both sides is on a rail, as far as RAILS_MAX goes; 0: a side has none. */
uint32_t rail_count(uint32_t own_count, uint32_t server_count);
/* The rail of that index: each server's device in turn, with the device of ours that is nearest to it by
 * its GIDs, as long as one is free that is on no rail before. */
struct rail rail_choose(const struct kvasir_device *const *own, uint32_t own_count,
                        const struct kvasir_link_address *servers, uint32_t server_count,
                        uint32_t index);

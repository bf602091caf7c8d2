#include "client/rail.h"

#include "base/check.h"

uint32_t rail_count(uint32_t own_count, uint32_t server_count)
{
    uint32_t count = own_count > server_count ? own_count : server_count;
    if (own_count == 0 || server_count == 0) {
        return 0;
    }
    return count < RAILS_MAX ? count : RAILS_MAX;
}

static unsigned common_bits(const uint8_t *one, const uint8_t *other)
{
    unsigned bits = 0;
    while (bits < 8 * KVASIR_GID_BYTES &&
           ((one[bits / 8] ^ other[bits / 8]) >> (7 - bits % 8) & 1) == 0) {
        bits++;
    }
    return bits;
}

/* How near, and 0 for another kind of network. */
static unsigned nearness(const struct kvasir_device *own, const struct kvasir_link_address *server)
{
    unsigned most = 0;
    for (unsigned i = 0; i < own->gid_count && i < KVASIR_GIDS_MAX; i++) {
        unsigned bits = 1 + common_bits(own->gids[i].raw, server->gid.raw);
        most = bits > most ? bits : most;
    }
    return own->layer == server->layer ? most : 0;
}

static uint32_t nearest(const struct kvasir_device *const *own, uint32_t own_count,
                        const struct kvasir_link_address *server, uint32_t used)
{
    uint32_t best = own_count;
    unsigned most = 0;
    for (uint32_t i = 0; i < own_count; i++) {
        unsigned near = nearness(own[i], server);
        if ((used >> i & 1U) == 0 && (best == own_count || near > most)) {
            best = i;
            most = near;
        }
    }
    return best;
}

struct rail rail_choose(const struct kvasir_device *const *own, uint32_t own_count,
                        const struct kvasir_link_address *servers, uint32_t server_count,
                        uint32_t index)
{
    struct rail rail = {0, 0};
    uint32_t used = 0;
    check(own_count > 0 && own_count <= RAILS_MAX && server_count > 0);
    for (uint32_t i = 0; i <= index; i++) {
        rail.server = i % server_count;
        used = used == (1U << own_count) - 1U ? 0 : used;
        rail.own = nearest(own, own_count, &servers[rail.server], used);
        used |= 1U << rail.own;
    }
    return rail;
}

#pragma once
/* fabric – the transport that a module brought, as this server uses it: one device, and the payload
 * memory registered with it, without a right for any peer. Made by main before the reactors start and
 * ended after them; in between read-only but for two flags. Owns the domain and the registration; borrows
 * the module. */

#include "base/compiler.h"
#include "base/metric.h"

#include <kvasir/transport.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loader;
struct region;
struct settings;

struct fabric {
    const struct kvasir_transport_ops *ops; /* borrowed from the registry */
    void *state;                            /* the module's */
    struct kvasir_domain *domain;           /* owned */
    struct kvasir_memory *payload;          /* owned; NULL until fabric_register */
    uint32_t mtu_bytes;                     /* asked for; 0: the device's */
    int gid_index;                          /* asked for, or KVASIR_GID_INDEX_AUTO */
    struct metric gone; /* 1: the device was taken away; set by reactor 0, read by all */
    struct metric
        lends; /* 1: some connection was ever opened to drive by itself; set and read by all */
};

/* Opens the device that the settings name, or the first whose port is up. NULL: there is no transport,
 * or it cannot be used; reason then holds a sentence, which is logged where somebody must act. */
struct fabric *fabric_open(const struct loader *modules, const struct settings *settings,
                           char *reason, size_t reason_capacity);
void fabric_close(struct fabric **fabric_p);

/* Registers the payload's memory; takes a while. False: fabric is of no use, reason says why. */
ATTR_MUST_USE bool fabric_register(struct fabric *fabric, const struct region *region,
                                   size_t size_bytes, char *reason, size_t reason_capacity);

const struct kvasir_device *fabric_device(const struct fabric *fabric);
bool fabric_is_gone(const struct fabric *fabric);

#pragma once
/* fabric – the transport that a module brought, as this server uses it: up to four devices, and the payload
 * memory registered with each, without a right for any peer. Made by main before the reactors start and
 * ended after them; in between read-only but for its flags. Owns domains and registrations; borrows the
 * module. */

#include "base/compiler.h"
#include "base/metric.h"

#include <kvasir/transport.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loader;
struct region;
struct settings;

#define FABRIC_DEVICES_MAX 4U

struct fabric_device {
    struct kvasir_domain *domain;  /* owned */
    struct kvasir_memory *payload; /* owned; NULL until fabric_register */
    struct metric gone;            /* 1: the device was taken away; set by reactor 0, read by all */
};

struct fabric {
    const struct kvasir_transport_ops *ops; /* borrowed from the registry */
    void *state;                            /* the module's */
    uint32_t device_count;                  /* 1 at least */
    struct fabric_device devices[FABRIC_DEVICES_MAX];
    uint32_t mtu_bytes;    /* asked for; 0: the device's */
    uint8_t traffic_class; /* of the packets */
    int gid_index;         /* asked for, or KVASIR_GID_INDEX_AUTO */
    struct metric
        lends; /* 1: some connection was ever opened to drive by itself; set and read by all */
};

/* Opens the devices that the settings name, or those whose port is up. NULL: there is no transport, or not
 * one of them can be used; reason then holds a sentence, which is logged where somebody must act. */
struct fabric *fabric_open(const struct loader *modules, const struct settings *settings,
                           char *reason, size_t reason_capacity);
void fabric_close(struct fabric **fabric_p);

/* Registers the payload's memory with every device, and gives up those that do not take it; takes a while.
 * False: none is left, reason says why. */
ATTR_MUST_USE bool fabric_register(struct fabric *fabric, const struct region *region,
                                   size_t size_bytes, char *reason, size_t reason_capacity);

const struct kvasir_device *fabric_device(const struct fabric *fabric, uint32_t index);
bool fabric_has_windows(const struct fabric *fabric, uint32_t index);
bool fabric_is_gone(const struct fabric *fabric, uint32_t index);
/* The device of that name, or the first, that is not gone; FABRIC_DEVICES_MAX: there is none. name: NULL
 * for any. */
uint32_t fabric_find(const struct fabric *fabric, const char *name);

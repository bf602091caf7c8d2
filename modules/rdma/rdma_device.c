#include "rdma_device.h"

#include "rdma_said.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All entries of all ports are asked for together; more than this is no adapter that we know. */
#define GID_ENTRIES_MAX 256
#define MTU_BYTES_MIN   256U

uint32_t rdma_device_mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? MTU_BYTES_MIN << (mtu - IBV_MTU_256) : 0;
}

unsigned rdma_device_mtu_code(uint32_t mtu_bytes)
{
    for (unsigned code = IBV_MTU_256; code <= IBV_MTU_4096; code++) {
        if (rdma_device_mtu_bytes((enum ibv_mtu)code) == mtu_bytes) {
            return code;
        }
    }
    return 0;
}

/* The node that the kernel names for the adapter; -1 where it names none. */
static int numa_node_of(const struct ibv_context *context)
{
    char path[IBV_SYSFS_PATH_MAX + 32];
    char text[16] = "";
    ssize_t got;
    int file;
    (void)snprintf(path, sizeof(path), "%s/device/numa_node", context->device->ibdev_path);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    got = read(file, text, sizeof(text) - 1);
    (void)close(file);
    return got > 0 ? (int)strtol(text, NULL, 10) : -1;
}

static enum kvasir_gid_type type_of(uint32_t type)
{
    if (type == IBV_GID_TYPE_ROCE_V1) {
        return KVASIR_GID_ROCE_V1;
    }
    return type == IBV_GID_TYPE_ROCE_V2 ? KVASIR_GID_ROCE_V2 : KVASIR_GID_INFINIBAND;
}

/* Entries that are all zero are not in the table that libibverbs gives. */
static enum kvasir_status list_gids(struct ibv_context *context, struct kvasir_device *device,
                                    char *said)
{
    struct ibv_gid_entry *entries = calloc(GID_ENTRIES_MAX, sizeof(*entries));
    ssize_t count;
    if (entries == NULL) {
        return rdma_said(said, KVASIR_NO_MEMORY, "device %s: no memory for its GIDs", device->name);
    }
    count = ibv_query_gid_table(context, entries, GID_ENTRIES_MAX, 0);
    for (ssize_t i = 0; i < count && device->gid_count < KVASIR_GIDS_MAX; i++) {
        struct kvasir_gid *gid = &device->gids[device->gid_count];
        if (entries[i].port_num != device->port) {
            continue;
        }
        gid->index = entries[i].gid_index;
        gid->type = type_of(entries[i].gid_type);
        memcpy(gid->raw, entries[i].gid.raw, sizeof(gid->raw));
        device->gid_count++;
    }
    free(entries);
    if (count < 0) {
        return rdma_said(said, KVASIR_IO, "device %s: its GIDs cannot be read: %s", device->name,
                         strerror((int)-count));
    }
    return KVASIR_OK;
}

enum kvasir_status rdma_device_describe(struct ibv_context *context,
                                        const struct ibv_device_attr *attributes, uint32_t port,
                                        struct kvasir_device *device_p, char *said)
{
    struct ibv_port_attr facts;
    struct kvasir_device device = {.port = port};
    enum kvasir_status status;
    int asked = attributes->max_qp_init_rd_atom;
    int answered = attributes->max_qp_rd_atom;
    int error;
    (void)snprintf(device.name, sizeof(device.name), "%s", ibv_get_device_name(context->device));
    memset(&facts, 0, sizeof(facts));
    error = ibv_query_port(context, (uint8_t)port, &facts);
    if (error != 0) {
        return rdma_said(said, KVASIR_IO, "device %s port %u cannot be read: %s", device.name,
                         (unsigned)port, strerror(error));
    }
    device.layer = facts.link_layer == IBV_LINK_LAYER_ETHERNET ? KVASIR_LAYER_ETHERNET
                                                               : KVASIR_LAYER_INFINIBAND;
    device.up = facts.state == IBV_PORT_ACTIVE || facts.state == IBV_PORT_ACTIVE_DEFER;
    device.windows = (attributes->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0;
    device.numa_node = numa_node_of(context);
    device.lid = facts.lid;
    device.mtu_bytes = rdma_device_mtu_bytes(facts.active_mtu);
    device.rd_atomic = (uint32_t)(asked < answered ? asked : answered);
    device.message_bytes_max = facts.max_msg_sz;
    status = list_gids(context, &device, said);
    if (status == KVASIR_OK) {
        *device_p = device;
    }
    return status;
}

/* Adds the ports of one adapter. One that cannot be opened is left out: another process may hold it, or
 * it is about to go. */
static void list_ports(const struct rdma_module *module, struct ibv_device *adapter,
                       struct kvasir_device *devices, unsigned capacity, unsigned *count_p)
{
    char said[KVASIR_SAID_BYTES];
    struct ibv_device_attr attributes;
    struct ibv_context *context = ibv_open_device(adapter);
    if (context == NULL || ibv_query_device(context, &attributes) != 0) {
        rdma_said_log(module, KVASIR_LOG_WARN, "device %s cannot be opened: %s",
                      ibv_get_device_name(adapter), strerror(errno));
        attributes.phys_port_cnt = 0;
    }
    for (unsigned port = 1; port <= attributes.phys_port_cnt; port++) {
        struct kvasir_device device;
        if (rdma_device_describe(context, &attributes, port, &device, said) != KVASIR_OK) {
            rdma_said_log(module, KVASIR_LOG_WARN, "%s", said);
            continue;
        }
        if (*count_p < capacity) {
            devices[*count_p] = device;
        }
        (*count_p)++;
    }
    if (context != NULL) {
        (void)ibv_close_device(context);
    }
}

enum kvasir_status rdma_device_list(void *state, struct kvasir_device *devices, unsigned capacity,
                                    unsigned *count_p, char *said)
{
    int adapter_count = 0;
    unsigned count = 0;
    struct ibv_device **adapters = ibv_get_device_list(&adapter_count);
    if (adapters == NULL) {
        /* Without the kernel's part there are no devices; that is no failure. */
        if (errno == ENOSYS || errno == ENOENT) {
            *count_p = 0;
            return KVASIR_OK;
        }
        return rdma_said(said, KVASIR_IO, "the RDMA devices cannot be listed: %s", strerror(errno));
    }
    for (int i = 0; i < adapter_count; i++) {
        list_ports(state, adapters[i], devices, capacity, &count);
    }
    ibv_free_device_list(adapters);
    *count_p = count;
    return KVASIR_OK;
}

/* ---- which GID ---- */

bool rdma_device_gid_is_ipv4(const struct kvasir_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, prefix, sizeof(prefix)) == 0;
}

static bool is_link_local(const struct kvasir_gid *gid)
{
    return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

static unsigned common_bits(const struct kvasir_gid *a, const struct kvasir_gid *b)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < KVASIR_GID_BYTES; i++) {
        unsigned differ = (unsigned)(a->raw[i] ^ b->raw[i]);
        if (differ == 0) {
            bits += 8;
            continue;
        }
        return bits + (unsigned)__builtin_clz(differ) - 24;
    }
    return bits;
}

/* The higher the better. What the peer speaks counts most: other versions and families do not meet. */
static unsigned rank(const struct kvasir_gid *gid, const struct kvasir_gid *peer)
{
    unsigned points = 0;
    points += gid->type == KVASIR_GID_ROCE_V2 ? 1024 : 0;
    points += rdma_device_gid_is_ipv4(gid) ? 512 : (is_link_local(gid) ? 0 : 256);
    if (peer != NULL) {
        points += gid->type == peer->type ? 8192 : 0;
        points += rdma_device_gid_is_ipv4(gid) == rdma_device_gid_is_ipv4(peer) ? 4096 : 0;
        points += common_bits(gid, peer);
    }
    return points;
}

enum kvasir_status rdma_device_choose_gid(void *state, const struct kvasir_device *device,
                                          int index, const struct kvasir_gid *peer,
                                          struct kvasir_gid *gid_p, char *said)
{
    const struct kvasir_gid *best = NULL;
    char indexes[128] = "";
    size_t used = 0;
    (void)state;
    for (unsigned i = 0; i < device->gid_count; i++) {
        const struct kvasir_gid *gid = &device->gids[i];
        if (index >= 0 ? gid->index == (unsigned)index
                       : best == NULL || rank(gid, peer) > rank(best, peer)) {
            best = gid;
        }
        if (used + 12 < sizeof(indexes)) {
            used += (size_t)snprintf(indexes + used, sizeof(indexes) - used, "%s%u",
                                     used > 0 ? ", " : "", (unsigned)gid->index);
        }
    }
    if (best != NULL) {
        *gid_p = *best;
        return KVASIR_OK;
    }
    if (device->gid_count == 0) {
        return rdma_said(said, KVASIR_NOT_FOUND,
                         "device %s port %u has no GID; give its network interface an address",
                         device->name, (unsigned)device->port);
    }
    return rdma_said(said, KVASIR_NOT_FOUND, "device %s port %u has no GID of index %d; it has %s",
                     device->name, (unsigned)device->port, index, indexes);
}

#include "server/shm.h"

#include "base/check.h"
#include "base/fault.h"
#include "server/access.h"
#include "server/reply.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- who may ---- */

/* True when uid stands in a list of numbers with commas between. */
static bool uid_listed(const char *list, uint32_t uid)
{
    while (*list != '\0') {
        char *end = NULL;
        unsigned long number = strtoul(list, &end, 10);
        if (end != list && number == uid) {
            return true;
        }
        list = end != list ? end : list + 1;
        list += strspn(list, ", ");
    }
    return false;
}

bool shm_allowed(struct conn *conn)
{
    const struct settings *settings = &conn->reactor->settings;
    uint32_t uid = 0;
    if (!conn->is_unix) {
        reply_error(conn,
                    "UNSUPPORTED shared memory is for clients on the Unix socket (unixsocket)");
        return false;
    }
    if (!settings->shm) {
        reply_error(conn, "UNSUPPORTED shared memory is switched off (option shm)");
        return false;
    }
    if (conn->restricted && !access_permits_mapping(conn->user)) {
        reply_error(conn, "NOPERM shared memory shows every key: the user needs ~* or %R~* in the "
                          "rules that allow KV.CONNECT; KV.GET needs no more than its key");
        return false;
    }
    if (!listener_peer_uid(conn->wire.descriptor, &uid)) {
        reply_error(conn, "DENIED the user id of the client cannot be learnt");
        return false;
    }
    if (strcmp(settings->shm_uid, "*") == 0 ||
        (settings->shm_uid[0] == '\0' && (uid == geteuid() || uid == 0)) ||
        uid_listed(settings->shm_uid, uid)) {
        return true;
    }
    reply_errorf(conn, "DENIED user id %u may not use shared memory; add it to shm-uid", uid);
    return false;
}

/* ---- the area ---- */

static int make_descriptor(uint64_t size_bytes)
{
    int descriptor = fault_hit("server.staging")
                         ? -1
                         : memfd_create("kvasir-staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) {
        return -1;
    }
    if (ftruncate(descriptor, (off_t)size_bytes) != 0 ||
        fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        (void)close(descriptor);
        return -1;
    }
    return descriptor;
}

bool shm_staging_open(struct conn *conn, uint64_t size_bytes)
{
    struct reactor *reactor = conn->reactor;
    struct staging *staging = calloc(1, sizeof(*staging));
    if (staging == NULL) {
        goto fail;
    }
    staging->descriptor = -1;
    staging->size_bytes = size_bytes;
    staging->block_count = (uint32_t)(size_bytes / SHM_BLOCK_BYTES);
    staging->owners = calloc(staging->block_count, sizeof(*staging->owners));
    staging->descriptor = make_descriptor(size_bytes + SHM_RINGS_BYTES);
    if (staging->owners == NULL || staging->descriptor < 0) {
        goto fail;
    }
    staging->base = mmap(NULL, size_bytes + SHM_RINGS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
                         staging->descriptor, 0);
    if (staging->base == MAP_FAILED) {
        goto fail;
    }
    reactor->shm_staging_bytes += size_bytes + SHM_RINGS_BYTES;
    metric_add(&reactor->metrics.shm_clients, 1);
    conn->staging = staging;
    return true;
fail:
    reply_errorf(conn, "OOM no staging area of %llu bytes: %s", (unsigned long long)size_bytes,
                 strerror(errno));
    if (staging != NULL) {
        if (staging->descriptor >= 0) {
            (void)close(staging->descriptor);
        }
        free(staging->owners);
        free(staging);
    }
    return false;
}

void shm_staging_close(struct conn *conn)
{
    struct staging *staging = conn->staging;
    if (staging == NULL) {
        return;
    }
    conn->reactor->shm_staging_bytes -= staging->size_bytes + SHM_RINGS_BYTES;
    metric_sub(&conn->reactor->metrics.shm_clients, 1);
    (void)munmap(staging->base, staging->size_bytes + SHM_RINGS_BYTES);
    (void)close(staging->descriptor);
    free(staging->owners);
    free(staging);
    conn->staging = NULL;
}

/* ---- holds ---- */

uint16_t shm_hold_take(struct staging *staging, uint64_t length_bytes)
{
    uint64_t wanted = (length_bytes + SHM_BLOCK_BYTES - 1) / SHM_BLOCK_BYTES;
    uint64_t vacant = 0;
    uint16_t hold = 1;
    while (hold <= SHM_HOLDS_MAX && staging->holds[hold].taken) {
        hold++;
    }
    for (uint32_t i = 0; i < staging->block_count && vacant < wanted; i++) {
        vacant += staging->owners[i] == SHM_HOLD_NONE;
    }
    if (hold > SHM_HOLDS_MAX || vacant < wanted) {
        return SHM_HOLD_NONE;
    }
    for (uint32_t i = 0; i < staging->block_count && wanted > 0; i++) {
        if (staging->owners[i] == SHM_HOLD_NONE) {
            staging->owners[i] = hold;
            wanted--;
        }
    }
    staging->holds[hold] = (struct staging_hold){.length_bytes = length_bytes, .taken = true};
    return hold;
}

void shm_hold_give(struct staging *staging, uint16_t hold)
{
    check(hold != SHM_HOLD_NONE && staging->holds[hold].taken);
    for (uint32_t i = 0; i < staging->block_count; i++) {
        if (staging->owners[i] == hold) {
            staging->owners[i] = SHM_HOLD_NONE;
        }
    }
    staging->holds[hold] = (struct staging_hold){0};
}

uint16_t shm_hold_find(const struct staging *staging, uint64_t grant_id)
{
    for (uint16_t hold = 1; hold <= SHM_HOLDS_MAX; hold++) {
        if (staging->holds[hold].taken && staging->holds[hold].grant_id == grant_id) {
            return hold;
        }
    }
    return SHM_HOLD_NONE;
}

struct shm_piece shm_hold_piece(const struct staging *staging, uint16_t hold, uint64_t offset_bytes)
{
    uint64_t length = staging->holds[hold].length_bytes;
    uint64_t seen = 0; /* of the value, before the block looked at */
    struct shm_piece piece = {0, 0};
    for (uint32_t i = 0; i < staging->block_count && seen < length; i++) {
        uint64_t end = seen + SHM_BLOCK_BYTES;
        if (staging->owners[i] != hold) {
            if (piece.length_bytes > 0) {
                break;
            }
            continue;
        }
        end = end < length ? end : length;
        if (piece.length_bytes > 0) {
            piece.length_bytes += end - seen;
        } else if (end > offset_bytes) {
            piece.offset_bytes = (uint64_t)i * SHM_BLOCK_BYTES + (offset_bytes - seen);
            piece.length_bytes = end - offset_bytes;
        }
        seen = end;
    }
    return piece;
}

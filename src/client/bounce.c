#include "client/bounce.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/list.h"
#include "client/client_impl.h"

#include <stdlib.h>

#define BOUNCE_MAGIC 0x4b564244U
/* What a round begins with at least, if there is so much: its beginning and end do not count then. More
 * than an item beyond it is left to the next round, which is copied while this one's items travel. */
#define ROUND_BYTES_MAX ((size_t)8 << 20)
/* Between two looks at copies that must end. */
#define LOOK_US 20

enum bounce_state {
    BOUNCE_APART,     /* in a queue or on its way by an adapter; next: WAITING */
    BOUNCE_WAITING,   /* for lanes; next: TO_HOST, or READY for a get */
    BOUNCE_TO_HOST,   /* for the round's end; next: READY */
    BOUNCE_READY,     /* the lanes stand for the item's memory; next: LEAVING for a get */
    BOUNCE_LEAVING,   /* for a round; next: TO_DEVICE */
    BOUNCE_TO_DEVICE, /* for the round's end; then the item is done */
};

struct bounce {
    uint32_t magic;
    enum bounce_state state;
    struct list member;             /* of waiting, leaving or copying */
    struct kvasir_request *request; /* borrowed; it outlives this */
    uint32_t index;
    uint8_t mode; /* enum job_mode: how it goes on when it is ready */
    size_t bytes; /* of the item's memory */
    uint32_t lane_count;
    struct iovec lanes[]; /* the last one cut to the bytes */
};

struct bounces {
    struct device_memory *devices; /* owned */
    struct list waiting;
    struct list leaving;
    struct list copying;    /* the round */
    bool round;             /* copies were begun whose end is not known */
    enum kvasir_status end; /* of a round that was waited for; KVASIR_PENDING: none was */
    uint32_t exposed_count; /* slabs */
};

struct bounces *bounce_create(struct device_memory **devices_p)
{
    struct bounces *bounces = calloc(1, sizeof(*bounces));
    if (bounces != NULL) {
        bounces->devices = *devices_p;
        bounces->end = KVASIR_PENDING;
        list_init(&bounces->waiting);
        list_init(&bounces->leaving);
        list_init(&bounces->copying);
        *devices_p = NULL;
    }
    return bounces;
}

void bounce_destroy(struct bounces **bounces_p)
{
    if (*bounces_p != NULL) {
        device_memory_close(&(*bounces_p)->devices);
        free(*bounces_p);
        *bounces_p = NULL;
    }
}

struct device_memory *bounce_devices(const struct bounces *bounces)
{
    return bounces->devices;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Where a list of pieces lies: outside, with a piece inside, or astride. */
static enum device_memory_place place_of(struct device_memory *devices,
                                         const struct iovec *segments, uint32_t count)
{
    enum device_memory_place place = DEVICE_MEMORY_OUTSIDE;
    for (uint32_t i = 0; i < count && place != DEVICE_MEMORY_ASTRIDE; i++) {
        int device;
        enum device_memory_place next =
            segments[i].iov_len == 0
                ? DEVICE_MEMORY_OUTSIDE
                : device_memory_place(devices, segments[i].iov_base, segments[i].iov_len, &device);
        place = next == DEVICE_MEMORY_OUTSIDE ? place : next;
    }
    return place;
}

bool bounce_mark(struct kvasir_request *request, uint32_t index)
{
    struct kvasir_client *client = request->client;
    struct device_memory *devices = client->bounces->devices;
    uint32_t count;
    const struct iovec *segments = job_own_segments(&request->items[index], &count);
    size_t bytes = segment_total_bytes(segments, count);
    size_t lanes = (bytes + DEVICE_MEMORY_LANE_BYTES - 1) / DEVICE_MEMORY_LANE_BYTES;
    enum device_memory_place place = place_of(devices, segments, count);
    struct bounce *bounce;
    if (place == DEVICE_MEMORY_OUTSIDE) {
        return true;
    }
    if (place == DEVICE_MEMORY_ASTRIDE) {
        client_explain(client, "a piece of memory reaches beyond a registered buffer of a device");
        job_answer(request, index, KVASIR_INVALID);
        return false;
    }
    /* What is larger than all lanes can only go without them. */
    lanes = lanes <= device_memory_lanes_max(devices) ? lanes : 0;
    bounce = calloc(1, sizeof(*bounce) + lanes * sizeof(bounce->lanes[0]));
    if (bounce == NULL) {
        client_explain(client, "out of memory for an item of %zu bytes", bytes);
        job_answer(request, index, KVASIR_NO_MEMORY);
        return false;
    }
    *bounce = (struct bounce){.magic = BOUNCE_MAGIC,
                              .state = BOUNCE_APART,
                              .request = request,
                              .index = index,
                              .bytes = bytes,
                              .lane_count = (uint32_t)lanes};
    list_init(&bounce->member);
    request->work[index].bounce = bounce;
    return true;
}

static bool has_lanes(const struct bounce *bounce)
{
    return bounce->state != BOUNCE_APART && bounce->state != BOUNCE_WAITING;
}

bool bounce_is_apart(const struct job_item *work)
{
    return work->bounce != NULL && !has_lanes(work->bounce);
}

const struct iovec *bounce_segments(const struct job_item *work, uint32_t *count_p)
{
    if (work->bounce == NULL || !has_lanes(work->bounce)) {
        return NULL;
    }
    *count_p = work->bounce->lane_count;
    return work->bounce->lanes;
}

void bounce_enter(struct kvasir_request *request, uint32_t index)
{
    struct job_item *work = &request->work[index];
    struct bounce *bounce = work->bounce;
    CHECK_MAGIC(bounce, BOUNCE_MAGIC);
    check(bounce->state == BOUNCE_APART);
    bounce->mode = work->mode;
    bounce->state = BOUNCE_WAITING;
    work->mode = JOB_BOUNCING;
    list_push_back(&request->client->bounces->waiting, &bounce->member);
}

static void end(struct kvasir_client *client, struct bounce *bounce)
{
    if (has_lanes(bounce)) {
        device_memory_lanes_give(client->bounces->devices, bounce->lanes, bounce->lane_count);
    }
    list_remove(&bounce->member);
    bounce->request->work[bounce->index].bounce = NULL;
    bounce->magic = 0;
    free(bounce);
}

/* Whoever ends early waits for the copies under way, some milliseconds: no driver takes one back, and the
 * caller's memory must be left alone. */
static void wait_for_round(struct bounces *bounces)
{
    const char *said;
    while (bounces->round && bounces->end == KVASIR_PENDING) {
        bounces->end = device_memory_poll(bounces->devices, &said);
        if (bounces->end == KVASIR_PENDING) {
            clock_sleep_us(LOOK_US);
        }
    }
}

/* An adapter wrote into the device's memory. */
static enum kvasir_status settle(struct kvasir_client *client, const struct kvasir_item *item)
{
    char said[KVASIR_SAID_BYTES] = "";
    uint32_t count;
    const struct iovec *segments = job_own_segments(item, &count);
    enum kvasir_status status =
        device_memory_settle(client->bounces->devices, segments, count, said);
    if (status != KVASIR_OK) {
        client_explain(client, "%s", said);
    }
    return status;
}

bool bounce_leave(struct kvasir_request *request, uint32_t index, enum kvasir_status *status_p)
{
    struct kvasir_client *client = request->client;
    struct bounce *bounce = request->work[index].bounce;
    size_t length_bytes = request->items[index].length_bytes;
    CHECK_MAGIC(bounce, BOUNCE_MAGIC);
    if (client->bounces == NULL) { /* a forked child's: the driver is the parent's */
        list_remove(&bounce->member);
        request->work[index].bounce = NULL;
        free(bounce);
        return true;
    }
    if (bounce->state == BOUNCE_APART && *status_p == KVASIR_OK && request->call == JOB_GET &&
        length_bytes > 0) {
        *status_p = settle(client, &request->items[index]);
    }
    if (bounce->state == BOUNCE_READY && *status_p == KVASIR_OK) {
        client->counters.bounced_bytes += length_bytes;
        if (request->call == JOB_GET && length_bytes > 0) {
            bounce->state = BOUNCE_LEAVING;
            request->work[index].mode = JOB_BOUNCING;
            list_push_back(&client->bounces->leaving, &bounce->member);
            return false;
        }
    }
    if (bounce->state == BOUNCE_TO_HOST || bounce->state == BOUNCE_TO_DEVICE) {
        wait_for_round(client->bounces);
    }
    end(client, bounce);
    return true;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Copies length_bytes between the lanes and the item's own pieces. */
static void begin_copies(struct kvasir_client *client, const struct bounce *bounce,
                         size_t length_bytes, bool to_device)
{
    struct device_memory *devices = client->bounces->devices;
    struct segment_cursor cursor;
    uint32_t count;
    const struct iovec *segments = job_own_segments(&bounce->request->items[bounce->index], &count);
    segment_init(&cursor, segments, count);
    for (uint32_t i = 0; length_bytes > 0; i++) {
        uint8_t *lane = bounce->lanes[i].iov_base;
        size_t left =
            bounce->lanes[i].iov_len < length_bytes ? bounce->lanes[i].iov_len : length_bytes;
        length_bytes -= left;
        while (left > 0) {
            struct iovec piece;
            size_t bytes;
            int device = 0;
            uint32_t pieces = segment_peek(&cursor, left, &piece, 1, &bytes);
            check(pieces == 1);
            void *to = to_device ? piece.iov_base : lane;
            const void *from = to_device ? lane : piece.iov_base;
            if (device_memory_place(devices, piece.iov_base, bytes, &device) ==
                DEVICE_MEMORY_INSIDE) {
                device_memory_copy(devices, device, to, from, bytes);
            } else {
                copy_payload(to, from, bytes);
            }
            segment_skip(&cursor, bytes);
            lane += bytes;
            left -= bytes;
        }
    }
}

/* Lanes for the first that waits. False: it waits on. */
static bool take_lanes(struct kvasir_client *client, struct bounce *bounce)
{
    struct device_memory *devices = client->bounces->devices;
    size_t rest = bounce->bytes % DEVICE_MEMORY_LANE_BYTES;
    if (bounce->lane_count == 0 ||
        !device_memory_lanes_take(devices, bounce->lanes, bounce->lane_count)) {
        return false;
    }
    if (rest > 0) {
        bounce->lanes[bounce->lane_count - 1].iov_len = rest;
    }
    bounce_expose(client);
    return true;
}

/* True: the item can never have as many lanes as it takes, and was answered. */
static bool refuse(struct kvasir_client *client, struct bounce *bounce)
{
    size_t lanes_max = device_memory_lanes_max(client->bounces->devices);
    if (bounce->lane_count > 0 && bounce->lane_count <= lanes_max) {
        return false;
    }
    client_explain(client,
                   "%zu bytes in a device's memory that no adapter moves take more pinned host "
                   "memory than there is: %zu bytes, see bounce_bytes",
                   bounce->bytes, lanes_max * DEVICE_MEMORY_LANE_BYTES);
    job_answer(bounce->request, bounce->index, KVASIR_NO_MEMORY);
    return true;
}

static void start_copying(struct bounces *bounces, struct bounce *bounce, enum bounce_state state)
{
    bounce->state = state;
    list_remove(&bounce->member);
    list_push_back(&bounces->copying, &bounce->member);
    bounces->round = true;
}

static void ready(struct bounce *bounce)
{
    bounce->state = BOUNCE_READY;
    list_remove(&bounce->member);
    job_requeue(bounce->request, bounce->index, bounce->mode);
}

/* What comes from the host has lanes to give back, and goes first. */
static bool begin_round(struct kvasir_client *client)
{
    struct bounces *bounces = client->bounces;
    size_t bytes = 0;
    bool any = false;
    while (!list_empty(&bounces->leaving) && bytes < ROUND_BYTES_MAX) {
        struct bounce *bounce = list_entry(bounces->leaving.next, struct bounce, member);
        size_t length_bytes = bounce->request->items[bounce->index].length_bytes;
        start_copying(bounces, bounce, BOUNCE_TO_DEVICE);
        begin_copies(client, bounce, length_bytes, true);
        bytes += length_bytes;
    }
    while (!list_empty(&bounces->waiting) && bytes < ROUND_BYTES_MAX) {
        struct bounce *bounce = list_entry(bounces->waiting.next, struct bounce, member);
        if (!take_lanes(client, bounce)) {
            if (!refuse(client, bounce)) {
                break;
            }
            any = true;
        } else if (bounce->request->call == JOB_PUT) {
            start_copying(bounces, bounce, BOUNCE_TO_HOST);
            begin_copies(client, bounce, bounce->bytes, false);
            bytes += bounce->bytes;
        } else {
            ready(bounce);
            any = true;
        }
    }
    return any;
}

static void end_round(struct kvasir_client *client, bool worked)
{
    struct bounces *bounces = client->bounces;
    bounces->round = false;
    bounces->end = KVASIR_PENDING;
    while (!list_empty(&bounces->copying)) {
        struct bounce *bounce = list_entry(bounces->copying.next, struct bounce, member);
        struct kvasir_request *request = bounce->request;
        uint32_t index = bounce->index;
        if (bounce->state == BOUNCE_TO_HOST && worked) {
            ready(bounce);
            continue;
        }
        end(client, bounce);
        job_copied(request, index, worked ? KVASIR_OK : KVASIR_IO);
    }
}

bool bounce_advance(struct kvasir_client *client)
{
    struct bounces *bounces = client->bounces;
    const char *said = "a copy to or from a device failed";
    bool any = false;
    if (bounces->round) {
        enum kvasir_status status = bounces->end;
        if (status == KVASIR_PENDING) {
            status = device_memory_poll(bounces->devices, &said);
        }
        if (status == KVASIR_PENDING) {
            return false;
        }
        if (status != KVASIR_OK) {
            client_explain(client, "%s", said);
        }
        end_round(client, status == KVASIR_OK);
        any = true;
    }
    return begin_round(client) || any;
}

bool bounce_is_copying(const struct kvasir_client *client)
{
    return client->bounces != NULL && client->bounces->round;
}

/* What cannot be registered is sent by the socket. */
void bounce_expose(struct kvasir_client *client)
{
    struct bounces *bounces = client->bounces;
    struct iovec slab;
    char said[KVASIR_SAID_BYTES];
    while (client->memory != NULL &&
           device_memory_slab(bounces->devices, bounces->exposed_count, &slab)) {
        if (remote_memory_add(client->memory, slab.iov_base, slab.iov_len, NULL, said) !=
            KVASIR_OK) {
            client_explain_rdma(client, "pinned memory cannot be registered: %s", said);
        }
        bounces->exposed_count++;
    }
}

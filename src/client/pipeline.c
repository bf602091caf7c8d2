#include "client/pipeline.h"

#include "base/check.h"
#include "client/bounce.h"
#include "client/client_impl.h"
#include "client/event_list.h"
#include "client/put_options.h"
#include "client/spread.h"
#include "proto/resp_encode.h"

/* Payload expected or under way by one socket; keeps a fast network busy for a round trip. */
#define PIPELINE_WEIGHT_MAX (32U << 20)
/* A capacity says little about the value's size: it counts for no more than this. */
#define PIPELINE_GET_WEIGHT_MAX (4U << 20)
/* Small bytes of a command on one key: names, numbers, two keys up to OUTBOX_COPY_BYTES_MAX. */
#define PIPELINE_SINGLE_BYTES 2048U
/* Entries of a command on one key: payload, two long keys, and what lies between. */
#define PIPELINE_SINGLE_ENTRIES 8U
/* A command on many keys: this many keys at most, and this many small bytes. */
#define PIPELINE_KEYS_MAX   1000U
#define PIPELINE_KEYS_BYTES (64U << 10)
#define PIPELINE_LONG_KEYS  64U
/* Keys of one LEASE: few enough that copying starts early. */
#define PIPELINE_LEASE_KEYS_MAX 64U
/* Releases wait for company up to this many, or until their values hold this much memory. */
#define PIPELINE_RELEASES_WAIT        64U
#define PIPELINE_RELEASE_BYTES_WAIT   (1U << 20)
#define PIPELINE_RELEASES_PER_COMMAND 256U
/* Shorter payloads are in the socket's buffer before a queue pair has looked at them. */
#define PIPELINE_RDMA_BYTES_MIN 4096U
/* Stretches of registered memory of one item, and the bytes of what is said of one. */
#define PIPELINE_REMOTES_MAX  128U
#define PIPELINE_REMOTE_BYTES 96U
/* The last words of a reservation by RDMA: TIMEOUT and its number. */
#define PIPELINE_TIMEOUT_WORDS 2U
/* A get needs its lease for one copy only. */
#define PIPELINE_GET_LEASE_MS 5000U
/* Leases are taken for over this much early: the copy's last instructions and a late clock. */
#define PIPELINE_SKEW_US_MAX 50000
/* The server rounds every reservation up to its grain. */
#define PIPELINE_STAGING_GRAIN 4096U

bool pipeline_has_work(const struct link *link)
{
    list_foreach (member, &link->client->requests) {
        const struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        if (request->queues[link->index].head != JOB_NONE) {
            return true;
        }
    }
    return false;
}

/* Room for one more command of a request. */
static bool has_room(struct link *link, size_t weight, size_t bytes, uint32_t entries)
{
    if (link->command_count >= LINK_COMMANDS_REQUEST_MAX) {
        return false;
    }
    /* Two commands may always be under way, so that a large one follows another without a gap. */
    if (link->command_count >= 2 && link->weight_bytes + weight > PIPELINE_WEIGHT_MAX) {
        return false;
    }
    return outbox_has_room(&link->outbox, bytes, entries);
}

static struct link_command *push(struct link *link, enum link_command_kind kind,
                                 struct kvasir_request *request, uint32_t first, uint32_t count)
{
    struct link_command *command = link_command_push(link, kind);
    command->request = request;
    command->first = first;
    command->count = count;
    return command;
}

static void weigh(struct link *link, struct link_command *command, size_t weight)
{
    command->weight_bytes = weight;
    link->weight_bytes += weight;
}

void pipeline_abort(struct link *link, uint64_t reservation_id)
{
    /* Without room nothing is lost: the server aborts the reservation at its deadline. */
    if (link->command_count < LINK_COMMANDS_MAX &&
        outbox_has_room(&link->outbox, PIPELINE_SINGLE_BYTES, 1)) {
        outbox_add_array(&link->outbox, 2);
        outbox_add_text(&link->outbox, "KV.ABORT");
        outbox_add_number(&link->outbox, reservation_id);
        (void)push(link, LINK_ABORT, NULL, JOB_NONE, 0);
    }
}

void pipeline_release(struct link *link)
{
    struct outbox *outbox = &link->outbox;
    while (link->release_count > 0 && link->command_count < LINK_COMMANDS_MAX) {
        uint32_t count = link->release_count;
        if (count > PIPELINE_RELEASES_PER_COMMAND) {
            count = PIPELINE_RELEASES_PER_COMMAND;
        }
        if (!outbox_has_room(outbox, PIPELINE_SINGLE_BYTES + (size_t)count * 32, 1)) {
            return;
        }
        outbox_add_array(outbox, 1 + count);
        outbox_add_text(outbox, "KV.RELEASE");
        for (uint32_t i = 0; i < count; i++) {
            outbox_add_number(outbox, link->releases[link->release_count - 1 - i]);
        }
        link->release_count -= count;
        (void)push(link, LINK_RELEASE, NULL, JOB_NONE, 0);
    }
    if (link->release_count == 0) {
        link->release_bytes = 0;
    }
}

/* ---- puts -------------------------------------------------------------------------------- */

static bool add_put(struct link *link, struct kvasir_request *request)
{
    uint32_t index = request->queues[link->index].head;
    const struct kvasir_item *item = &request->items[index];
    size_t length = job_payload_bytes(item);
    if (!has_room(link, length, PIPELINE_SINGLE_BYTES, PIPELINE_SINGLE_ENTRIES)) {
        return false;
    }
    (void)job_take(request, link->index);
    uint32_t count;
    const struct iovec *segments = job_segments(request, index, &count);
    bool checksum = request->put.checksum;
    outbox_add_array(&link->outbox, 3 + put_options_count(request, index, checksum));
    outbox_add_text(&link->outbox, "KV.SET");
    outbox_add_slice(&link->outbox, job_key(item));
    outbox_add_payload(&link->outbox, segments, count, length);
    put_options_add(&link->outbox, request, index, checksum);
    weigh(link, push(link, LINK_PUT, request, index, 1), length);
    return true;
}

/* ---- by the queue pair --------------------------------------------------------------------- */

/* Whether this side moves the item's payload itself. */
static bool wants_move(const struct link *link, const struct kvasir_request *request,
                       uint32_t index)
{
    const struct job_item *work = &request->work[index];
    uint32_t count;
    const struct iovec *segments = job_segments(request, index, &count);
    return link_lends(link) && (work->mode == JOB_FIRST || work->mode == JOB_LEASE) &&
           (request->call == JOB_PUT || request->call == JOB_GET) &&
           segment_total_bytes(segments, count) >= PIPELINE_RDMA_BYTES_MIN &&
           remote_memory_holds(link->client->memory, segments, count);
}

/* How many more may be asked for. */
static uint32_t moves_left(const struct link *link)
{
    uint32_t used = link->move_count + link->leases_in_flight + link->reserves_in_flight;
    return used < RDMA_MOVES_MAX ? RDMA_MOVES_MAX - used : 0;
}

/* What is left of the request's time: no grant is needed for longer, and none is given for longer than the
 * server's longest. */
static uint32_t grant_ms(const struct kvasir_request *request, int64_t now_us)
{
    uint32_t max = request->client->lease_ms_max > 0 ? request->client->lease_ms_max : UINT32_MAX;
    int64_t left_ms = (request->deadline_us - now_us) / 1000 + 1;
    return left_ms < 1 ? 1 : left_ms < max ? (uint32_t)left_ms : max;
}

/* What the server is to know of the item's memory; 0: it goes another way. */
static unsigned expose_item(struct link *link, const struct kvasir_request *request, uint32_t index,
                            struct stripe *stripes)
{
    uint32_t count;
    const struct iovec *segments = job_segments(request, index, &count);
    if (!link_has_rdma(link) || request->work[index].mode == JOB_INLINE ||
        segment_total_bytes(segments, count) < PIPELINE_RDMA_BYTES_MIN) {
        return 0;
    }
    return spread_expose(link, segments, count, stripes, PIPELINE_REMOTES_MAX);
}

/* Returns the mask of the queue pairs. */
static uint8_t add_stripes(struct outbox *outbox, const struct stripe *stripes, unsigned count)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < count; i++) {
        outbox_add_number(outbox, stripes[i].address);
        outbox_add_number(outbox, stripes[i].key);
        outbox_add_number(outbox, stripes[i].bytes);
        mask |= 1U << (stripes[i].key >> QUEUE_PAIR_KEY_BITS);
    }
    return (uint8_t)mask;
}

static bool add_put_from(struct link *link, struct kvasir_request *request,
                         const struct stripe *stripes, unsigned stripe_count)
{
    uint32_t index = request->queues[link->index].head;
    const struct kvasir_item *item = &request->items[index];
    bool checksum = request->put.checksum;
    if (!has_room(link, 0, PIPELINE_SINGLE_BYTES + stripe_count * PIPELINE_REMOTE_BYTES,
                  PIPELINE_SINGLE_ENTRIES)) {
        return false;
    }
    (void)job_take(request, link->index);
    outbox_add_array(&link->outbox,
                     4 + 3 * stripe_count + put_options_count(request, index, checksum));
    outbox_add_text(&link->outbox, "KV.PUT");
    outbox_add_slice(&link->outbox, job_key(item));
    outbox_add_number(&link->outbox, job_payload_bytes(item));
    put_options_add(&link->outbox, request, index, checksum);
    outbox_add_text(&link->outbox, "FROM");
    uint8_t mask = add_stripes(&link->outbox, stripes, stripe_count);
    push(link, LINK_PUT_FROM, request, index, 1)->pair_mask = mask;
    return true;
}

static bool add_get_into(struct link *link, struct kvasir_request *request,
                         const struct stripe *stripes, unsigned stripe_count)
{
    uint32_t index = request->queues[link->index].head;
    if (!has_room(link, 0, PIPELINE_SINGLE_BYTES + stripe_count * PIPELINE_REMOTE_BYTES,
                  PIPELINE_SINGLE_ENTRIES)) {
        return false;
    }
    (void)job_take(request, link->index);
    outbox_add_array(&link->outbox, 3 + 3 * stripe_count);
    outbox_add_text(&link->outbox, "KV.GET");
    outbox_add_slice(&link->outbox, job_key(&request->items[index]));
    outbox_add_text(&link->outbox, "INTO");
    uint8_t mask = add_stripes(&link->outbox, stripes, stripe_count);
    push(link, LINK_GET_INTO, request, index, 1)->pair_mask = mask;
    return true;
}

static bool add_reserve(struct link *link, struct kvasir_request *request, int64_t now_us)
{
    uint32_t index = request->queues[link->index].head;
    const struct kvasir_item *item = &request->items[index];
    size_t length = job_payload_bytes(item);
    size_t staging = (length + PIPELINE_STAGING_GRAIN - 1) & ~(size_t)(PIPELINE_STAGING_GRAIN - 1);
    /* Half of the staging memory is left as slack for the server's own rounding, unless the value
     * alone takes more. */
    bool by_shm = link_has_shm(link);
    if (by_shm ? link->staging_used_bytes > 0 &&
                     link->staging_used_bytes + staging > link->shm.staging_bytes / 2
               : moves_left(link) == 0) {
        return false;
    }
    if (!has_room(link, 0, PIPELINE_SINGLE_BYTES, PIPELINE_SINGLE_ENTRIES)) {
        return false;
    }
    (void)job_take(request, link->index);
    request->work[index].mode = JOB_RESERVE;
    if (by_shm) {
        request->work[index].staging_bytes = staging;
        link->staging_used_bytes += staging;
    }
    outbox_add_array(&link->outbox, 3 + (by_shm ? 0 : PIPELINE_TIMEOUT_WORDS) +
                                        put_options_count(request, index, false));
    outbox_add_text(&link->outbox, "KV.RESERVE");
    outbox_add_slice(&link->outbox, job_key(item));
    outbox_add_number(&link->outbox, length);
    put_options_add(&link->outbox, request, index, false);
    if (!by_shm) {
        outbox_add_text(&link->outbox, "TIMEOUT");
        outbox_add_number(&link->outbox, grant_ms(request, now_us));
    }
    (void)push(link, LINK_RESERVE, request, index, 1);
    link->reserves_in_flight++;
    return true;
}

static bool add_commit(struct link *link, struct kvasir_request *request)
{
    if (!has_room(link, 0, PIPELINE_SINGLE_BYTES, PIPELINE_SINGLE_ENTRIES)) {
        return false;
    }
    uint32_t index = job_take(request, link->index);
    bool checksum = request->put.checksum;
    outbox_add_array(&link->outbox, checksum ? 3 : 2);
    outbox_add_text(&link->outbox, "KV.COMMIT");
    outbox_add_number(&link->outbox, request->work[index].grant_id);
    if (checksum) {
        put_options_add_digest(&link->outbox, request, index);
    }
    (void)push(link, LINK_COMMIT, request, index, 1);
    return true;
}

/* ---- commands on one key ------------------------------------------------------------------- */

static bool add_single(struct link *link, struct kvasir_request *request, const char *name,
                       enum link_command_kind kind, size_t weight)
{
    if (!has_room(link, weight, PIPELINE_SINGLE_BYTES, PIPELINE_SINGLE_ENTRIES)) {
        return false;
    }
    uint32_t index = job_take(request, link->index);
    outbox_add_array(&link->outbox, 2);
    outbox_add_text(&link->outbox, name);
    outbox_add_slice(&link->outbox, job_key(&request->items[index]));
    weigh(link, push(link, kind, request, index, 1), weight);
    return true;
}

static bool add_get(struct link *link, struct kvasir_request *request)
{
    uint32_t index = request->queues[link->index].head;
    size_t capacity = job_payload_bytes(&request->items[index]);
    size_t weight = capacity < PIPELINE_GET_WEIGHT_MAX ? capacity : PIPELINE_GET_WEIGHT_MAX;
    return add_single(link, request, "KV.GET", LINK_GET, weight);
}

static bool add_events(struct link *link, struct kvasir_request *request)
{
    if (!has_room(link, 0, PIPELINE_SINGLE_BYTES, PIPELINE_SINGLE_ENTRIES)) {
        return false;
    }
    uint32_t index = job_take(request, link->index);
    outbox_add_array(&link->outbox, 5);
    outbox_add_text(&link->outbox, "KV.EVENTS");
    outbox_add_text(&link->outbox, "SINCE");
    if (request->since == KVASIR_EVENTS_NOW) {
        outbox_add_text(&link->outbox, "$");
    } else {
        outbox_add_number(&link->outbox, request->since);
    }
    outbox_add_text(&link->outbox, "COUNT");
    outbox_add_number(&link->outbox, event_list_capacity(request->events));
    (void)push(link, LINK_EVENTS, request, index, 1);
    return true;
}

/* ---- commands on many keys ----------------------------------------------------------------- */

static bool wants_lease(const struct link *link, const struct kvasir_request *request,
                        uint32_t index)
{
    const struct job_item *work = &request->work[index];
    if (!link_has_shm(link)) {
        return wants_move(link, request, index);
    }
    if (work->mode == JOB_INLINE || bounce_is_apart(work)) {
        return false;
    }
    return request->call == JOB_VIEW ||
           job_payload_bytes(&request->items[index]) >= PIPELINE_SHM_GET_BYTES_MIN;
}

/* How many of the queued items one command takes; 0: no room now. */
static uint32_t count_keys(struct link *link, const struct kvasir_request *request,
                           uint32_t count_max, bool leases)
{
    uint32_t count = 0;
    uint32_t long_keys = 0;
    size_t bytes = PIPELINE_SINGLE_BYTES;
    uint32_t index = request->queues[link->index].head;
    while (index != JOB_NONE && count < count_max) {
        size_t key_bytes = request->items[index].key_length_bytes;
        bool is_long = key_bytes > OUTBOX_COPY_BYTES_MAX;
        bytes += RESP_HEADER_BYTES_MAX + (is_long ? 0 : key_bytes);
        long_keys += is_long ? 1 : 0;
        if (bytes > PIPELINE_KEYS_BYTES || long_keys > PIPELINE_LONG_KEYS ||
            (leases && !wants_lease(link, request, index))) {
            break;
        }
        count++;
        index = request->work[index].next;
    }
    return count > 0 && has_room(link, 0, bytes, 2 + 2 * long_keys) ? count : 0;
}

/* Takes count items off the queue, chained by next, and encodes their keys. */
static uint32_t add_keys(struct link *link, struct kvasir_request *request, uint32_t count)
{
    uint32_t first = JOB_NONE;
    uint32_t last = JOB_NONE;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = job_take(request, link->index);
        outbox_add_slice(&link->outbox, job_key(&request->items[index]));
        if (first == JOB_NONE) {
            first = index;
        } else {
            request->work[last].next = index;
        }
        last = index;
    }
    return first;
}

static bool add_match(struct link *link, struct kvasir_request *request)
{
    uint32_t count = count_keys(link, request, PIPELINE_KEYS_MAX, false);
    if (count == 0) {
        return false;
    }
    bool pin = request->call == JOB_MATCH && request->pin_ms > 0;
    outbox_add_array(&link->outbox, 3 + (pin ? 2 : 0) + count);
    outbox_add_text(&link->outbox, "KV.MATCH");
    if (pin) {
        outbox_add_text(&link->outbox, "PIN");
        outbox_add_number(&link->outbox, request->pin_ms);
    }
    outbox_add_text(&link->outbox, "POLICY");
    /* A prefix is one walk that ends at the first hole. */
    outbox_add_text(&link->outbox, request->call == JOB_MATCH ? "PREFIX" : "EACH");
    uint32_t first = add_keys(link, request, count);
    (void)push(link, LINK_MATCH, request, first, count);
    return true;
}

static bool add_lease(struct link *link, struct kvasir_request *request, int64_t now_us)
{
    uint32_t count_max = PIPELINE_LEASE_KEYS_MAX;
    if (!link_has_shm(link) && moves_left(link) < count_max) {
        count_max = moves_left(link);
    }
    uint32_t count = count_keys(link, request, count_max, true);
    if (count == 0 || link->release_count + link->leases_in_flight + count > LINK_RELEASES_MAX) {
        return false;
    }
    const struct kvasir_client *client = link->client;
    uint32_t lease_ms = client->options.lease_ms;
    uint32_t needed_ms = link_has_shm(link) ? PIPELINE_GET_LEASE_MS : grant_ms(request, now_us);
    if (request->call == JOB_GET && lease_ms > needed_ms) {
        lease_ms = needed_ms;
    }
    if (client->lease_ms_max > 0 && lease_ms > client->lease_ms_max) {
        lease_ms = client->lease_ms_max;
    }
    outbox_add_array(&link->outbox, 2 + count);
    outbox_add_text(&link->outbox, "KV.LEASE");
    outbox_add_number(&link->outbox, lease_ms);
    uint32_t first = add_keys(link, request, count);
    struct link_command *command = push(link, LINK_LEASE, request, first, count);
    /* Counted from before the command is sent, so the server's own deadline is later. */
    int64_t lease_us = (int64_t)lease_ms * 1000;
    int64_t skew_us = lease_us / 10 < PIPELINE_SKEW_US_MAX ? lease_us / 10 : PIPELINE_SKEW_US_MAX;
    command->deadline_us = now_us + lease_us - skew_us;
    link->leases_in_flight += count;
    return true;
}

/* ---- the window ---------------------------------------------------------------------------- */

/* The item is in the memory of a device, which neither a socket nor a copy can reach: unless an adapter
 * moves it, it goes by host memory. True: it was sent there. */
static bool detour(const struct link *link, struct kvasir_request *request, uint32_t index,
                   bool by_adapter)
{
    if (by_adapter || !bounce_is_apart(&request->work[index])) {
        return false;
    }
    (void)job_take(request, link->index);
    bounce_enter(request, index);
    return true;
}

static bool add_any_get(struct link *link, struct kvasir_request *request, uint32_t index,
                        int64_t now_us)
{
    if (detour(link, request, index, !link_has_shm(link))) {
        return true;
    }
    if (wants_lease(link, request, index)) {
        return add_lease(link, request, now_us);
    }
    if (request->call == JOB_VIEW) {
        (void)job_take(request, link->index);
        job_answer(request, index, KVASIR_UNSUPPORTED);
        return true;
    }
    struct stripe stripes[PIPELINE_REMOTES_MAX];
    unsigned stripe_count = expose_item(link, request, index, stripes);
    return stripe_count > 0 ? add_get_into(link, request, stripes, stripe_count)
                            : detour(link, request, index, false) || add_get(link, request);
}

static bool add_any_put(struct link *link, struct kvasir_request *request, uint32_t index,
                        int64_t now_us)
{
    const struct job_item *work = &request->work[index];
    if (work->mode == JOB_COMMIT) {
        return add_commit(link, request);
    }
    /* A checksum is made here, of what can be read here. */
    if (detour(link, request, index, !link_has_shm(link) && !request->put.checksum)) {
        return true;
    }
    size_t length = job_payload_bytes(&request->items[index]);
    bool by_shm =
        work->mode != JOB_INLINE && link_has_shm(link) && length >= PIPELINE_SHM_PUT_BYTES_MIN;
    if ((by_shm && length <= link->shm.staging_bytes) || wants_move(link, request, index)) {
        return add_reserve(link, request, now_us);
    }
    struct stripe stripes[PIPELINE_REMOTES_MAX];
    unsigned stripe_count = expose_item(link, request, index, stripes);
    if (stripe_count > 0) {
        return add_put_from(link, request, stripes, stripe_count);
    }
    if (detour(link, request, index, false)) {
        return true;
    }
    bool added = add_put(link, request);
    link->client->counters.path_fallbacks += added && by_shm ? 1 : 0;
    return added;
}

/* The next command for the head of a queue. False: no room for it now. */
static bool add_next(struct link *link, struct kvasir_request *request, int64_t now_us)
{
    uint32_t index = request->queues[link->index].head;
    switch (request->call) {
    case JOB_PUT:
        return add_any_put(link, request, index, now_us);
    case JOB_GET:
    case JOB_VIEW:
        return add_any_get(link, request, index, now_us);
    case JOB_EXISTS:
    case JOB_MATCH:
        return add_match(link, request);
    case JOB_DELETE:
        return add_single(link, request, "DEL", LINK_DELETE, 0);
    case JOB_STAT:
        return add_single(link, request, "KV.STAT", LINK_STAT, 0);
    case JOB_EVENTS:
        return add_events(link, request);
    }
    unreachable();
}

void pipeline_fill(struct link *link, int64_t now_us)
{
    bool has_work = pipeline_has_work(link);
    if (link->release_count > 0 && (has_work || link->release_count >= PIPELINE_RELEASES_WAIT ||
                                    link->release_bytes >= PIPELINE_RELEASE_BYTES_WAIT)) {
        pipeline_release(link);
    }
    if (!has_work) {
        return;
    }
    for (uint32_t i = 0; link->client->memory != NULL && i < RAILS_MAX; i++) {
        if (queue_pair_is_due(&link->pairs[i], now_us) &&
            has_room(link, 0, PIPELINE_SINGLE_BYTES, 1)) {
            (void)queue_pair_ask(&link->pairs[i], now_us);
        }
    }
    bool blocked = false;
    list_foreach_safe (member, after, &link->client->requests) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        const struct job_queue *queue = &request->queues[link->index];
        while (!request->finished && queue->head != JOB_NONE) {
            /* Behind a blocked item only commits may pass: they are what frees staging memory. */
            if (blocked && request->work[queue->head].mode != JOB_COMMIT) {
                break;
            }
            if (!add_next(link, request, now_us)) {
                blocked = true;
                break;
            }
        }
    }
}

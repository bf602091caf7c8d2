#include "client/rdma_move.h"

#include "base/check.h"
#include "base/clock.h"
#include "client/answer.h"
#include "client/client_impl.h"
#include "client/pipeline.h"

#include <stdlib.h>

#define MOVE_MAGIC 0x4b564d56U
/* Events taken at a time. */
#define EVENTS_MAX 16U

struct rdma_move {
    uint32_t magic;
    bool posted;                    /* an event will come */
    struct list member;             /* of the client's */
    struct link *link;              /* borrowed; links outlive their transfers */
    struct kvasir_request *request; /* borrowed; NULL: withdrawn, only the event is waited for */
    uint32_t index;
    uint32_t generation;     /* of the queue pair that the keys are good on */
    struct queue_pair *pair; /* borrowed from the link; NULL until there is a key */
    uint64_t grant_id;
    uint64_t length_bytes;
    struct kvasir_job job;
    struct kvasir_local *locals; /* in the same block, behind the remotes */
    uint32_t remote_max;
    struct kvasir_remote remotes[];
};

/* ---- making -------------------------------------------------------------------------------- */

struct rdma_move *rdma_move_create(struct link *link, struct kvasir_request *request,
                                   uint32_t index, uint64_t length_bytes, uint64_t piece_max)
{
    uint32_t count;
    (void)job_segments(request, index, &count);
    struct rdma_move *move;
    /* A piece has a byte at least, and no adapter takes so many. */
    if (length_bytes == 0 || piece_max > length_bytes || piece_max > UINT16_MAX) {
        return NULL;
    }
    move = calloc(1, sizeof *move + (size_t)piece_max * sizeof(struct kvasir_remote) +
                         (size_t)count * sizeof(struct kvasir_local));
    if (move == NULL) {
        return NULL;
    }
    move->magic = MOVE_MAGIC;
    move->link = link;
    move->request = request;
    move->index = index;
    move->length_bytes = length_bytes;
    move->remote_max = (uint32_t)piece_max;
    move->locals = (struct kvasir_local *)(void *)(move->remotes + piece_max);
    move->job = (struct kvasir_job){
        .kind = request->call == JOB_PUT ? KVASIR_JOB_WRITE : KVASIR_JOB_READ,
        .cookie = (uintptr_t)move,
        .locals = move->locals,
        .remotes = move->remotes,
    };
    list_init(&move->member);
    return move;
}

bool rdma_move_add(struct rdma_move *move, uint64_t address, uint64_t key, uint64_t bytes)
{
    uint64_t index = key >> QUEUE_PAIR_KEY_BITS;
    if (move->job.remote_count == move->remote_max || index >= RAILS_MAX ||
        (move->pair != NULL && move->pair != &move->link->pairs[index])) {
        return false;
    }
    move->pair = &move->link->pairs[index];
    move->generation = move->pair->generation;
    move->remotes[move->job.remote_count] =
        (struct kvasir_remote){.address = address, .key = (uint32_t)key, .bytes = bytes};
    move->job.remote_count++;
    return true;
}

void rdma_move_discard(struct rdma_move **move_p)
{
    if (*move_p != NULL) {
        (*move_p)->magic = 0;
        free(*move_p);
        *move_p = NULL;
    }
}

/* Off the list of those under way. */
static void finish(struct rdma_move *move)
{
    list_remove(&move->member);
    rdma_move_discard(&move);
}

/* ---- ending -------------------------------------------------------------------------------- */

/* The server may have its memory back. */
static void give_back(struct rdma_move *move)
{
    if (move->link->state != LINK_UP) {
        return; /* and has it already */
    }
    if (move->job.kind == KVASIR_JOB_WRITE) {
        pipeline_abort(move->link, move->grant_id);
    } else {
        link_release_later(move->link, move->grant_id, move->length_bytes);
    }
}

/* Nobody waits for it any more. */
static void detach(struct rdma_move *move)
{
    move->request = NULL;
    move->link->move_count--;
}

/* The item goes another way. */
static void fall_back(struct rdma_move *move)
{
    struct kvasir_request *request = move->request;
    uint32_t index = move->index;
    detach(move);
    give_back(move);
    move->link->client->counters.path_fallbacks++;
    job_requeue(request, index, JOB_SERVED);
}

static void succeed(struct rdma_move *move)
{
    struct kvasir_request *request = move->request;
    struct kvasir_item *item = &request->items[move->index];
    uint32_t index = move->index;
    detach(move);
    queue_pair_works(move->link, 1U << move->pair->index);
    if (move->job.kind == KVASIR_JOB_WRITE) {
        request->work[index].grant_id = move->grant_id;
        job_requeue(request, index, JOB_COMMIT);
        return;
    }
    give_back(move);
    client_count_payload(move->link->client, item, false, KVASIR_PATH_RDMA_CLIENT,
                         move->length_bytes);
    job_answer(request, index, KVASIR_OK);
}

/* ---- under way ----------------------------------------------------------------------------- */

/* Its queue pair is still the one that the keys are good on. */
static bool is_current(const struct rdma_move *move)
{
    return move->pair != NULL && move->generation == move->pair->generation;
}

/* The item's memory, as the queue pair's device knows it. */
static void find_locals(struct rdma_move *move)
{
    uint32_t count;
    const struct iovec *segments = job_segments(move->request, move->index, &count);
    if (move->pair != NULL) {
        move->job.local_count =
            remote_memory_locals(move->link->client->memory, move->pair->device, segments, count,
                                 move->length_bytes, move->locals);
    }
}

/* False: it waits, and is offered again after the next event. */
static bool post(struct rdma_move *move)
{
    const struct queue_pair *pair = move->pair;
    enum kvasir_status status = KVASIR_CLOSED;
    if (is_current(move) && pair->state == QUEUE_PAIR_UP && move->job.local_count > 0) {
        status = remote_memory_ops(move->link->client->memory)->submit(pair->link, &move->job);
    }
    move->posted = status == KVASIR_PENDING;
    if (status != KVASIR_PENDING && status != KVASIR_AGAIN) {
        fall_back(move);
        finish(move);
    }
    return status != KVASIR_AGAIN;
}

void rdma_move_start(struct rdma_move **move_p, uint64_t grant_id)
{
    struct rdma_move *move = *move_p;
    *move_p = NULL;
    move->grant_id = grant_id;
    move->request->work[move->index].mode = JOB_MOVING;
    move->link->move_count++;
    find_locals(move);
    list_push_back(&move->link->client->moves, &move->member);
    (void)post(move);
}

static void post_waiting(struct kvasir_client *client)
{
    list_foreach_safe (member, after, &client->moves) {
        struct rdma_move *move = list_entry(member, struct rdma_move, member);
        if (!move->posted && !post(move)) {
            return;
        }
    }
}

static void take_move(struct rdma_move *move, const struct kvasir_event *event)
{
    CHECK_MAGIC(move, MOVE_MAGIC);
    check(move->posted);
    if (move->request != NULL && event->status == KVASIR_OK) {
        succeed(move);
    } else if (move->request != NULL) {
        /* A queue pair does not live on after a failure. Of one that was closed for another reason the
         * next may be there already. */
        if (is_current(move)) {
            client_explain_rdma(move->link->client, "a transfer failed: %s", event->reason);
            queue_pair_break(move->pair, clock_mono_us());
        }
        fall_back(move);
    }
    finish(move);
}

/* NULL: it was closed meanwhile. */
static struct queue_pair *find_pair(struct kvasir_client *client, uint64_t cookie)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        for (uint32_t k = 0; k < RAILS_MAX; k++) {
            struct queue_pair *pair = &client->links[i]->pairs[k];
            if (queue_pair_cookie(pair) == cookie) {
                return pair;
            }
        }
    }
    return NULL;
}

static void take_down(struct kvasir_client *client, const struct kvasir_event *event)
{
    struct queue_pair *pair = find_pair(client, event->cookie);
    /* Where the server drives, its answers tell. */
    if (pair != NULL && pair->state == QUEUE_PAIR_UP && pair->lends) {
        client_explain_rdma(client, "the queue pair failed: %s", event->reason);
        queue_pair_break(pair, clock_mono_us());
    }
}

/* Of a queue pair that was closed meanwhile nothing comes. */
static void take_up(struct kvasir_client *client, const struct kvasir_event *event)
{
    struct queue_pair *pair = find_pair(client, event->cookie);
    if (pair != NULL && pair->connecting) {
        queue_pair_connected(pair, event, clock_mono_us());
        answer_connected(pair->owner);
    }
}

static bool poll_device(struct kvasir_client *client, uint32_t device)
{
    const struct remote_memory *memory = client->memory;
    struct kvasir_queue *queue = remote_memory_queue(memory, device);
    struct kvasir_event events[EVENTS_MAX];
    bool any = false;
    unsigned count = EVENTS_MAX;
    while (count == EVENTS_MAX) {
        count = remote_memory_ops(memory)->queue_poll(queue, events, EVENTS_MAX);
        for (unsigned i = 0; i < count; i++) {
            if (events[i].kind == KVASIR_EVENT_JOB) {
                take_move((struct rdma_move *)(uintptr_t)events[i].cookie, &events[i]);
            } else if (events[i].kind == KVASIR_EVENT_LINK_DOWN) {
                take_down(client, &events[i]);
            } else if (events[i].kind == KVASIR_EVENT_LINK_UP) {
                take_up(client, &events[i]);
            }
        }
        any = any || count > 0;
    }
    return any;
}

bool rdma_move_poll(struct kvasir_client *client)
{
    bool any = false;
    uint32_t count = client->memory != NULL ? remote_memory_device_count(client->memory) : 0;
    for (uint32_t i = 0; i < count; i++) {
        any = poll_device(client, i) || any;
    }
    if (any) {
        post_waiting(client);
    }
    return any;
}

bool rdma_move_is_awaited(const struct kvasir_client *client)
{
    return !list_empty(&client->moves) || client->connecting_count > 0;
}

unsigned rdma_move_wait_fds(struct kvasir_client *client, int *fds, bool *ready_p)
{
    const struct remote_memory *memory = client->memory;
    uint32_t count = memory != NULL ? remote_memory_device_count(memory) : 0;
    *ready_p = false;
    if (!rdma_move_is_awaited(client)) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct kvasir_queue *queue = remote_memory_queue(memory, i);
        if (remote_memory_ops(memory)->queue_arm(queue) != KVASIR_OK) {
            *ready_p = true;
            return 0;
        }
        fds[i] = remote_memory_ops(memory)->queue_fd(queue);
    }
    return count;
}

/* ---- ending early -------------------------------------------------------------------------- */

void rdma_move_withdraw(struct link *link, struct kvasir_request *request, int64_t now_us)
{
    list_foreach_safe (member, after, &link->client->moves) {
        struct rdma_move *move = list_entry(member, struct rdma_move, member);
        if (move->link != link || move->request != request) {
            continue;
        }
        if (move->posted && is_current(move)) {
            queue_pair_break(move->pair, now_us);
        }
        detach(move);
        give_back(move);
        if (!move->posted) {
            finish(move);
        }
    }
}

void rdma_move_abandon(struct link *link, enum kvasir_status status)
{
    list_foreach_safe (member, after, &link->client->moves) {
        struct rdma_move *move = list_entry(member, struct rdma_move, member);
        struct kvasir_request *request = move->request;
        if (move->link != link || request == NULL) {
            continue;
        }
        detach(move);
        job_fail(request, move->index, status);
        if (!move->posted) {
            finish(move);
        }
    }
}

void rdma_move_free_all(struct kvasir_client *client)
{
    list_foreach_safe (member, after, &client->moves) {
        finish(list_entry(member, struct rdma_move, member));
    }
}

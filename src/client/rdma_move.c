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
    uint32_t generation; /* of the queue pair that the keys are good on */
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
    const struct iovec *segments = job_segments(request, index, &count);
    struct rdma_move *move;
    /* A piece has a byte at least, and no adapter takes so many. */
    if (piece_max > length_bytes || piece_max > UINT16_MAX) {
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
    move->generation = link->pair.generation;
    move->length_bytes = length_bytes;
    move->remote_max = (uint32_t)piece_max;
    move->locals = (struct kvasir_local *)(void *)(move->remotes + piece_max);
    move->job = (struct kvasir_job){
        .kind = request->call == JOB_PUT ? KVASIR_JOB_WRITE : KVASIR_JOB_READ,
        .cookie = (uintptr_t)move,
        .locals = move->locals,
        .remotes = move->remotes,
    };
    move->job.local_count =
        remote_memory_locals(link->client->memory, segments, count, length_bytes, move->locals);
    if (move->job.local_count == 0) {
        free(move);
        return NULL;
    }
    list_init(&move->member);
    return move;
}

bool rdma_move_add(struct rdma_move *move, uint64_t address, uint32_t key, uint64_t bytes)
{
    if (move->job.remote_count == move->remote_max) {
        return false;
    }
    move->remotes[move->job.remote_count] =
        (struct kvasir_remote){.address = address, .key = key, .bytes = bytes};
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
    queue_pair_works(&move->link->pair);
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

/* False: it waits, and is offered again after the next event. */
static bool post(struct rdma_move *move)
{
    struct link *link = move->link;
    enum kvasir_status status = KVASIR_CLOSED;
    if (link_has_rdma(link) && move->generation == link->pair.generation) {
        status = remote_memory_ops(link->client->memory)->submit(link->pair.link, &move->job);
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
        if (move->generation == move->link->pair.generation) {
            client_explain_rdma(move->link->client, "a transfer failed: %s", event->reason);
            queue_pair_break(move->link, clock_mono_us());
        }
        fall_back(move);
    }
    finish(move);
}

static void take_down(struct kvasir_client *client, const struct kvasir_event *event)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        struct link *link = client->links[i];
        /* Where the server drives, its answers tell. */
        if (link_lends(link) && queue_pair_cookie(link) == event->cookie) {
            client_explain_rdma(client, "the queue pair failed: %s", event->reason);
            queue_pair_break(link, clock_mono_us());
        }
    }
}

/* Of a queue pair that was closed meanwhile nothing comes. */
static void take_up(struct kvasir_client *client, const struct kvasir_event *event)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        struct link *link = client->links[i];
        if (link->pair.connecting && queue_pair_cookie(link) == event->cookie) {
            queue_pair_connected(link, event, clock_mono_us());
            answer_connected(link);
        }
    }
}

bool rdma_move_poll(struct kvasir_client *client)
{
    const struct remote_memory *memory = client->memory;
    struct kvasir_event events[EVENTS_MAX];
    bool any = false;
    unsigned count = EVENTS_MAX;
    while (memory != NULL && count == EVENTS_MAX) {
        count =
            remote_memory_ops(memory)->queue_poll(remote_memory_queue(memory), events, EVENTS_MAX);
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
    if (any) {
        post_waiting(client);
    }
    return any;
}

bool rdma_move_is_awaited(const struct kvasir_client *client)
{
    return !list_empty(&client->moves) || client->connecting_count > 0;
}

int rdma_move_wait_fd(struct kvasir_client *client, bool *ready_p)
{
    const struct remote_memory *memory = client->memory;
    *ready_p = false;
    if (memory == NULL || !rdma_move_is_awaited(client)) {
        return -1;
    }
    if (remote_memory_ops(memory)->queue_arm(remote_memory_queue(memory)) == KVASIR_OK) {
        return remote_memory_ops(memory)->queue_fd(remote_memory_queue(memory));
    }
    *ready_p = true;
    return -1;
}

/* ---- ending early -------------------------------------------------------------------------- */

void rdma_move_withdraw(struct link *link, struct kvasir_request *request, int64_t now_us)
{
    list_foreach_safe (member, after, &link->client->moves) {
        struct rdma_move *move = list_entry(member, struct rdma_move, member);
        if (move->link != link || move->request != request) {
            continue;
        }
        if (move->posted && move->generation == link->pair.generation) {
            queue_pair_break(link, now_us);
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

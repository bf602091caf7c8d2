#include "server/gather.h"

#include "base/check.h"
#include "base/fault.h"
#include "server/batch.h"
#include "server/reactor.h"

#include <stdlib.h>
#include <string.h>

/* The longest answer of one reactor (KEYS, CLIENT LIST): beyond it the request is refused. */
#define ANSWER_BYTES_MAX (64U << 20)
/* An answer of one reactor that is no longer than this is not refused. */
#define ANSWER_SMALL_BYTES (1U << 20)

struct gather *gather_create(struct reactor *reactor, gather_run_fn *run, gather_done_fn *done)
{
    uint32_t count = reactor->server->reactor_count;
    struct gather *gather = fault_hit("server.gather") ? NULL : calloc(1, sizeof(*gather));
    if (gather == NULL) {
        return NULL;
    }
    gather->answers = calloc(count, sizeof(*gather->answers));
    gather->tasks = calloc(count, sizeof(*gather->tasks));
    if (gather->answers == NULL || gather->tasks == NULL) {
        gather_destroy(&gather);
        return NULL;
    }
    gather->run = run;
    gather->done = done;
    gather->origin = reactor->index;
    gather->pool = &reactor->chunks;
    gather->reactor_count = count;
    return gather;
}

void gather_destroy(struct gather **gather_p)
{
    struct gather *gather = *gather_p;
    if (gather == NULL) {
        return;
    }
    for (uint32_t i = 0; gather->answers != NULL && i < gather->reactor_count; i++) {
        free(gather->answers[i].text);
    }
    if (gather->counted_bytes > 0) {
        gather->pool->large_bytes -= gather->counted_bytes;
    }
    free(gather->answers);
    free(gather->tasks);
    free(gather);
    *gather_p = NULL;
}

int64_t gather_sum(const struct gather *gather)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        sum += gather->answers[i].number;
    }
    return sum;
}

bool gather_answer_add(struct gather_answer *answer, const void *bytes, size_t length_bytes)
{
    if (answer->text_bytes + length_bytes > answer->text_capacity) {
        size_t capacity = answer->text_capacity == 0 ? 4096 : answer->text_capacity;
        uint8_t *text;
        while (capacity < answer->text_bytes + length_bytes) {
            capacity *= 2;
        }
        text = capacity > ANSWER_BYTES_MAX ? NULL : realloc(answer->text, capacity);
        if (text == NULL) {
            answer->other = -1;
            return false;
        }
        answer->text = text;
        answer->text_capacity = capacity;
    }
    if (length_bytes > 0) {
        memcpy(answer->text + answer->text_bytes, bytes, length_bytes);
        answer->text_bytes += length_bytes;
    }
    return true;
}

void gather_answer_free(struct gather_answer *answer)
{
    free(answer->text);
    *answer = (struct gather_answer){0};
}

/* Answers are memory beside the buffers, as long requests are, and share their bound; what INFO and the
 * like need is had in any case. */
static void count_answers(struct gather *gather)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        gather->failed = gather->failed || gather->answers[i].other < 0;
        bytes += gather->answers[i].text_capacity;
    }
    gather->pool->large_bytes += bytes - gather->counted_bytes;
    gather->counted_bytes = bytes;
    if (bytes > (uint64_t)gather->reactor_count * ANSWER_SMALL_BYTES &&
        gather->pool->large_bytes > gather->pool->large_bytes_max) {
        gather->failed = true;
    }
}

static bool one_done(struct reactor *reactor, struct gather *gather)
{
    struct batch *batch = gather->batch;
    gather->waiting--;
    if (gather->waiting > 0) {
        return false;
    }
    reactor->errand_count--;
    count_answers(gather);
    if (gather->done != NULL) {
        gather->done(reactor, gather);
    }
    if (batch != NULL) {
        batch_waited(reactor, batch);
    }
    return true;
}

static void run_here(struct reactor *reactor, struct gather *gather)
{
    reactor_shard_enter(reactor);
    gather->run(reactor, gather, reactor->index);
    reactor_shard_leave(reactor);
}

/* A transaction that holds all shards does it for everybody. */
static bool run_held(struct reactor *reactor, struct gather *gather)
{
    const struct server *server = reactor->server;
    check(reactor->held_shards == UINT64_MAX >> (64 - gather->reactor_count));
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        gather->run(server->reactors[i], gather, i);
    }
    gather->waiting = 1;
    return one_done(reactor, gather);
}

static void send_task(struct reactor *reactor, struct gather *gather, uint32_t to)
{
    gather->tasks[to].mail.kind = MAIL_TASK;
    mailbox_send(reactor->server->mailbox, reactor->index, to, &gather->tasks[to].mail);
}

/* Mail between two reactors keeps its order: what all get from the same one, all get in one order. */
static void send_to_others(struct reactor *reactor, struct gather *gather)
{
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        if (i != reactor->index) {
            send_task(reactor, gather, i);
        }
    }
}

bool gather_start(struct reactor *reactor, struct gather *gather, struct batch *batch)
{
    gather->batch = batch;
    gather->waiting = gather->reactor_count;
    gather->now = reactor->now;
    reactor->errand_count++;
    if (batch != NULL) {
        batch->waiting++;
    }
    if (reactor->held_shards != 0 && gather->on_shards) {
        return run_held(reactor, gather);
    }
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        gather->tasks[i].gather = gather;
    }
    if (gather->ordered && reactor->index != 0) {
        send_task(reactor, gather, 0);
        return false;
    }
    send_to_others(reactor, gather);
    run_here(reactor, gather);
    return one_done(reactor, gather);
}

void gather_execute(struct reactor *reactor, struct gather_task *task)
{
    struct gather *gather = task->gather;
    bool leads = gather->ordered && reactor->index == 0;
    run_here(reactor, gather);
    if (leads) {
        send_to_others(reactor, gather);
    } else if (reactor->index == gather->origin) {
        (void)one_done(reactor, gather); /* an ordered one came back to where it began */
        return;
    }
    task->mail.kind = MAIL_TASK_DONE;
    mailbox_send(reactor->server->mailbox, reactor->index, gather->origin, &task->mail);
}

void gather_returned(struct reactor *reactor, struct gather_task *task)
{
    (void)one_done(reactor, task->gather);
}

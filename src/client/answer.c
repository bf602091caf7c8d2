#include "client/answer.h"

#include "base/check.h"
#include "client/answer_stat.h"
#include "client/borrow.h"
#include "client/client_impl.h"
#include "client/event_list.h"
#include "client/opening.h"
#include "client/view.h"
#include "proto/status_code.h"

#include <string.h>

static struct kvasir_item *item_of(const struct link_command *command)
{
    return &command->request->items[command->first];
}

static enum kvasir_path inline_path(const struct link *link)
{
    return link->is_unix ? KVASIR_PATH_UNIX : KVASIR_PATH_TCP;
}

static void explain_error(struct link *link, struct slice text)
{
    int length = text.length_bytes < 200 ? (int)text.length_bytes : 200;
    client_explain(link->client, "the server answers: %.*s", length, (const char *)text.data);
}

/* ---- the greeting -------------------------------------------------------------------------- */

static void greeted(struct link *link)
{
    link->state = LINK_UP;
    link->attempt_status = KVASIR_OK;
    link->client->backoff_ms = 0;
    link->client->retry_at_us = 0;
}

static enum kvasir_status greeting_error(struct link *link, const struct link_command *command,
                                         const struct reply_token *token)
{
    explain_error(link, token->text);
    enum kvasir_status status = status_code_parse(token->text);
    if (status == KVASIR_DENIED) {
        return KVASIR_DENIED;
    }
    if (command->kind == LINK_KV_HELLO) {
        return KVASIR_PROTOCOL;
    }
    /* A server that is loading, or has too many clients, says so in place of the first reply. */
    return status == KVASIR_PROTOCOL ? KVASIR_PROTOCOL : KVASIR_CLOSED;
}

static enum kvasir_status take_hello(struct link *link, const struct link_command *command,
                                     const struct reply_token *token)
{
    if (token->depth == 0 && token->kind == REPLY_ERROR) {
        return greeting_error(link, command, token);
    }
    bool wrong =
        token->kind == REPLY_BULK_HEADER || (token->depth == 0 && token->kind != REPLY_MAP);
    return wrong ? KVASIR_PROTOCOL : KVASIR_OK;
}

static enum kvasir_status take_kv_hello(struct link *link, const struct link_command *command,
                                        const struct reply_token *token, int64_t now_us)
{
    if (token->depth == 0 && token->kind == REPLY_ERROR) {
        return greeting_error(link, command, token);
    }
    if (token->depth == 0) {
        greeting_begin(&link->greeting_reader);
    }
    enum kvasir_status status = greeting_token(&link->greeting_reader, token, link->greeting);
    if (status == KVASIR_OK && token->ends_reply) {
        if (link->shm_wanted && link->is_unix && link->greeting->shm) {
            greeting_begin(&link->greeting_reader);
            opening_connect_shm(link);
        } else if (link->client->memory == NULL || !queue_pair_ask_all(link, now_us)) {
            greeted(link);
        }
    }
    return status;
}

void answer_connected(struct link *link)
{
    if (link->state == LINK_GREETING && (link_has_rdma(link) || !link_asks_rdma(link))) {
        greeted(link);
    }
}

/* Part of the greeting, or later, when another queue pair takes the place of one that failed. Whatever
 * goes wrong, the socket still works. */
static enum kvasir_status take_connect_rdma(struct link *link, const struct link_command *command,
                                            const struct reply_token *token, int64_t now_us)
{
    struct queue_pair *pair = &link->pairs[command->first];
    enum kvasir_status status = KVASIR_OK;
    if (token->depth == 0 && token->kind == REPLY_ERROR) {
        int length = token->text.length_bytes < 200 ? (int)token->text.length_bytes : 200;
        client_explain_rdma(link->client, "the server refuses RDMA: %.*s", length,
                            (const char *)token->text.data);
        queue_pair_break(pair, now_us);
    } else {
        status = queue_pair_token(pair, token, now_us);
    }
    if (status == KVASIR_OK && token->ends_reply) {
        answer_connected(link);
    }
    return status;
}

/* Whatever goes wrong here, the socket still works: shared memory is left out. */
static enum kvasir_status take_connect_shm(struct link *link, const struct reply_token *token)
{
    if (token->depth == 0 && token->kind == REPLY_ERROR) {
        int length = token->text.length_bytes < 200 ? (int)token->text.length_bytes : 200;
        client_explain_shm(link->client, "the server refuses shared memory: %.*s", length,
                           (const char *)token->text.data);
        greeted(link);
        return KVASIR_OK;
    }
    enum kvasir_status status =
        greeting_shm_token(&link->greeting_reader, token, &link->greeting_shm);
    if (status != KVASIR_OK || !token->ends_reply) {
        return status;
    }
    if (link->passed_fd_count != ARRAY_COUNT(link->passed_fds)) {
        client_explain_shm(link->client, "the server passed %u descriptors instead of two",
                           link->passed_fd_count);
    } else {
        status = shm_map_open(&link->shm, link->client->regions, link->passed_fds,
                              link->greeting_shm.region_bytes, link->greeting_shm.staging_bytes,
                              greeting_rings_bytes(&link->greeting_shm));
        if (status == KVASIR_OK && link->greeting_shm.ring_bytes > 0) {
            opening_connect_ring(link);
            return KVASIR_OK;
        }
        if (status != KVASIR_OK) {
            client_explain_shm(link->client, "mapping the shared memory: %s",
                               kvasir_status_name(status));
        }
    }
    greeted(link);
    return KVASIR_OK;
}

/* The last reply that comes over the socket. A server that has no rings to spare refuses, and all
 * stays as it is. */
static enum kvasir_status take_connect_ring(struct link *link, const struct reply_token *token)
{
    struct greeting_shm *shm = &link->greeting_shm;
    if (token->depth != 0 || (token->kind != REPLY_ERROR && token->kind != REPLY_SIMPLE)) {
        return KVASIR_PROTOCOL;
    }
    if (token->kind == REPLY_SIMPLE) {
        channel_use_rings(&link->channel, link->shm.staging + shm->staging_bytes, shm->ring_bytes);
    }
    greeted(link);
    return KVASIR_OK;
}

static enum kvasir_path put_path(const struct link *link, enum link_command_kind kind)
{
    if (kind == LINK_COMMIT) {
        return link_has_shm(link) ? KVASIR_PATH_SHM : KVASIR_PATH_RDMA_CLIENT;
    }
    return kind == LINK_PUT_FROM ? KVASIR_PATH_RDMA : inline_path(link);
}

/* ---- one reply of one key ------------------------------------------------------------------ */

static enum kvasir_status take_put(struct link *link, struct link_command *command,
                                   const struct reply_token *token)
{
    if (token->kind != REPLY_SIMPLE) {
        return KVASIR_PROTOCOL;
    }
    bool stored = slice_equal_nocase(token->text, "OK");
    if (!stored && !slice_equal_nocase(token->text, "EXISTS")) {
        return KVASIR_PROTOCOL;
    }
    struct kvasir_request *request = command->request;
    if (command->kind == LINK_PUT_FROM && stored) {
        queue_pair_works(link, command->pair_mask);
    }
    if (command->kind == LINK_COMMIT && request != NULL) {
        borrow_staging_done(link, request, command->first);
    }
    if (request != NULL) {
        struct kvasir_item *item = item_of(command);
        if (stored) {
            enum kvasir_path path = put_path(link, command->kind);
            item->length_bytes = job_payload_bytes(item);
            client_count_payload(link->client, item, true, path, item->length_bytes);
        }
        job_answer(request, command->first, stored ? KVASIR_OK : KVASIR_EXISTS);
    }
    return KVASIR_OK;
}

static void got_payload(struct link *link, struct link_command *command, uint64_t length_bytes)
{
    struct kvasir_item *item = item_of(command);
    item->length_bytes = length_bytes;
    if (job_payload_bytes(item) < length_bytes) {
        job_answer(command->request, command->first, KVASIR_TOO_SMALL);
        return;
    }
    client_count_payload(link->client, item, false, inline_path(link), length_bytes);
    job_answer(command->request, command->first, KVASIR_OK);
}

/* A value that the caller's pieces cannot hold, or that nobody waits for, is read past. */
static void take_payload(struct link *link, struct link_command *command,
                         const struct reply_token *token)
{
    uint32_t count = 0;
    const struct iovec *segments = NULL;
    bool discard = true;
    uint64_t length = token->kind == REPLY_BULK ? token->text.length_bytes : token->count;
    if (command->request != NULL) {
        segments = job_segments(command->request, command->first, &count);
        discard = job_payload_bytes(item_of(command)) < length;
    }
    struct segment_cursor cursor;
    segment_init(&cursor, segments, count);
    link->answer.length_bytes = length;
    if (token->kind == REPLY_BULK_HEADER) {
        link->sink = (struct link_sink){
            .open = true, .discard = discard, .left_bytes = length, .cursor = cursor};
        return;
    }
    if (!discard) {
        segment_fill(&cursor, token->text.data, length);
    }
    if (command->request != NULL) {
        got_payload(link, command, length);
    }
}

static enum kvasir_status take_get(struct link *link, struct link_command *command,
                                   const struct reply_token *token)
{
    if (token->kind == REPLY_BULK || token->kind == REPLY_BULK_HEADER) {
        take_payload(link, command, token);
        return KVASIR_OK;
    }
    if (token->kind != REPLY_NULL) {
        return KVASIR_PROTOCOL;
    }
    if (command->request != NULL) {
        job_answer(command->request, command->first, KVASIR_NOT_FOUND);
    }
    return KVASIR_OK;
}

/* The length comes when the bytes are there, or, when they do not fit, without them. */
static enum kvasir_status take_get_into(struct link *link, struct link_command *command,
                                        const struct reply_token *token)
{
    struct kvasir_request *request = command->request;
    if (token->kind != REPLY_NULL && (token->kind != REPLY_INTEGER || token->number < 0)) {
        return KVASIR_PROTOCOL;
    }
    if (token->kind == REPLY_INTEGER) {
        queue_pair_works(link, command->pair_mask);
    }
    if (request == NULL) {
        return KVASIR_OK;
    }
    if (token->kind == REPLY_NULL) {
        job_answer(request, command->first, KVASIR_NOT_FOUND);
        return KVASIR_OK;
    }
    struct kvasir_item *item = item_of(command);
    item->length_bytes = (size_t)token->number;
    if (item->length_bytes > job_payload_bytes(item)) {
        job_answer(request, command->first, KVASIR_TOO_SMALL);
        return KVASIR_OK;
    }
    client_count_payload(link->client, item, false, KVASIR_PATH_RDMA, item->length_bytes);
    job_answer(request, command->first, KVASIR_OK);
    return KVASIR_OK;
}

void answer_payload_done(struct link *link)
{
    struct link_command *command = link_command_at(link, 0);
    if (command->kind == LINK_GET && command->request != NULL) {
        got_payload(link, command, link->answer.length_bytes);
    }
}

static enum kvasir_status take_delete(struct link_command *command, const struct reply_token *token)
{
    if (token->kind != REPLY_INTEGER) {
        return KVASIR_PROTOCOL;
    }
    if (command->request != NULL) {
        job_answer(command->request, command->first,
                   token->number > 0 ? KVASIR_OK : KVASIR_NOT_FOUND);
    }
    return KVASIR_OK;
}

/* ---- MATCH --------------------------------------------------------------------------------- */

static void match_item(struct link *link, const struct link_command *command, bool present)
{
    struct link_answer *answer = &link->answer;
    struct kvasir_request *request = command->request;
    if (request != NULL) {
        uint32_t index = answer->item;
        answer->item = request->work[index].next;
        job_answer(request, index, present ? KVASIR_OK : KVASIR_NOT_FOUND);
    }
    answer->answered++;
}

static enum kvasir_status take_match(struct link *link, struct link_command *command,
                                     const struct reply_token *token)
{
    struct link_answer *answer = &link->answer;
    if (token->depth == 0 && token->kind == REPLY_INTEGER) {
        if (token->number < 0 || token->number > command->count) {
            return KVASIR_PROTOCOL;
        }
        while (answer->answered < command->count) {
            match_item(link, command, answer->answered < (uint64_t)token->number);
        }
        return KVASIR_OK;
    }
    if (token->depth == 0) {
        bool fits = token->kind == REPLY_ARRAY && token->count == command->count;
        return fits ? KVASIR_OK : KVASIR_PROTOCOL;
    }
    if (token->depth != 1 || (token->kind != REPLY_INTEGER && token->kind != REPLY_BOOL)) {
        return KVASIR_PROTOCOL;
    }
    match_item(link, command, token->number > 0);
    return KVASIR_OK;
}

/* ---- errors -------------------------------------------------------------------------------- */

static bool is_of_grant(const struct link_command *command)
{
    return command->kind == LINK_LEASE || command->kind == LINK_RESERVE ||
           command->kind == LINK_COMMIT;
}

/* The server's queue pair moves the payload. */
static bool is_of_pair(const struct link_command *command)
{
    return command->kind == LINK_PUT_FROM || command->kind == LINK_GET_INTO;
}

/* What to do with an item whose command was refused: another way, or the answer it is. */
static void refused(struct link *link, struct link_command *command, uint32_t index,
                    enum kvasir_status status)
{
    struct kvasir_request *request = command->request;
    bool by_grant = is_of_grant(command);
    bool by_rdma = is_of_pair(command);
    /* By the socket these would be the same. */
    bool final = status == KVASIR_NO_MEMORY || status == KVASIR_CORRUPT ||
                 (by_rdma ? status == KVASIR_TOO_LARGE : status == KVASIR_DENIED);
    if (command->kind == LINK_COMMIT) {
        final = status != KVASIR_EXPIRED && status != KVASIR_NOT_FOUND;
    }
    if ((by_grant || by_rdma) && !final && request->call != JOB_VIEW) {
        link->client->counters.path_fallbacks++;
        bool by_other = by_rdma && status == KVASIR_IO; /* if another queue pair is up */
        job_requeue(request, index,
                    by_other || (by_grant && !link_has_shm(link)) ? JOB_SERVED : JOB_INLINE);
        return;
    }
    job_answer(request, index, status);
}

static void take_error(struct link *link, struct link_command *command,
                       const struct reply_token *token, int64_t now_us)
{
    enum kvasir_status status = status_code_parse(token->text);
    bool by_rdma = is_of_pair(command) || (is_of_grant(command) && !link_has_shm(link));
    /* Of the queue pair that is there now, or of one before it: then one is made in vain. */
    if (by_rdma && (status == KVASIR_IO || status == KVASIR_UNSUPPORTED)) {
        queue_pair_failed(link, token->text, now_us);
    }
    struct kvasir_request *request = command->request;
    if (command->kind == LINK_LEASE) {
        link->leases_in_flight -= command->count;
    }
    if (request == NULL) {
        return; /* a release or an abort that came too late, or withdrawn */
    }
    explain_error(link, token->text);
    if (command->kind == LINK_EVENTS) {
        status = event_list_error(request->events, status, token->text);
    }
    uint32_t index = command->first;
    for (uint32_t i = 0; i < command->count; i++) {
        uint32_t next = request->work[index].next;
        if (command->kind == LINK_RESERVE || command->kind == LINK_COMMIT) {
            borrow_staging_done(link, request, index);
        }
        refused(link, command, index, status);
        index = next;
    }
}

/* ---- any reply ----------------------------------------------------------------------------- */

static enum kvasir_status take_any(struct link *link, struct link_command *command,
                                   const struct reply_token *token, int64_t now_us)
{
    switch (command->kind) {
    case LINK_PUT:
    case LINK_PUT_FROM:
    case LINK_COMMIT:
        return take_put(link, command, token);
    case LINK_GET_INTO:
        return take_get_into(link, command, token);
    case LINK_GET:
        return take_get(link, command, token);
    case LINK_MATCH:
        return take_match(link, command, token);
    case LINK_DELETE:
        return take_delete(command, token);
    case LINK_STAT:
        return answer_stat_token(link, command, token);
    case LINK_EVENTS:
        return event_list_token(link, command, token);
    case LINK_LEASE:
        return borrow_lease_token(link, command, token, now_us);
    case LINK_RESERVE:
        return borrow_reserve_token(link, command, token, now_us);
    case LINK_RELEASE:
    case LINK_ABORT:
        return token->depth == 0 && token->ends_reply ? KVASIR_OK : KVASIR_PROTOCOL;
    case LINK_HELLO:
        return take_hello(link, command, token);
    case LINK_KV_HELLO:
        return take_kv_hello(link, command, token, now_us);
    case LINK_CONNECT_SHM:
        return take_connect_shm(link, token);
    case LINK_CONNECT_RING:
        return take_connect_ring(link, token);
    case LINK_CONNECT_RDMA:
        return take_connect_rdma(link, command, token, now_us);
    }
    unreachable();
}

enum kvasir_status answer_token(struct link *link, const struct reply_token *token, int64_t now_us)
{
    struct link_command *command = link_command_at(link, 0);
    if (!link->answer.begun) {
        memset(&link->answer, 0, sizeof link->answer);
        link->answer.begun = true;
        link->answer.item = command->first;
    }
    bool of_greeting = command->kind == LINK_HELLO || command->kind == LINK_KV_HELLO ||
                       command->kind == LINK_CONNECT_SHM || command->kind == LINK_CONNECT_RING ||
                       command->kind == LINK_CONNECT_RDMA;
    if (token->depth == 0 && token->kind == REPLY_ERROR && !of_greeting) {
        take_error(link, command, token, now_us);
        return KVASIR_OK;
    }
    return take_any(link, command, token, now_us);
}

void answer_end(struct link *link, int64_t now_us)
{
    (void)now_us;
    struct link_command *command = link_command_at(link, 0);
    link->weight_bytes -= command->weight_bytes;
    link->reserves_in_flight -= command->kind == LINK_RESERVE ? 1 : 0;
    link->answer.begun = false;
    link->command_first = (link->command_first + 1) % LINK_COMMANDS_MAX;
    link->command_count--;
    link->client->counters.round_trips += link->command_count == 0 ? 1 : 0;
}

/* Items whose bytes were staged and not committed start anew: the server drops the reservation. */
static void abandon_queued_commits(struct link *link)
{
    list_foreach (member, &link->client->requests) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        uint32_t index = request->queues[link->index].head;
        while (index != JOB_NONE) {
            if (request->work[index].mode == JOB_COMMIT) {
                request->work[index].mode = JOB_FIRST;
                request->work[index].staging_bytes = 0;
            }
            index = request->work[index].next;
        }
    }
}

void answer_abandon(struct link *link, enum kvasir_status status)
{
    if (link->answer.view != NULL) {
        view_destroy(&link->answer.view);
    }
    rdma_move_discard(&link->answer.move);
    for (uint32_t i = 0; i < link->command_count; i++) {
        struct link_command *command = link_command_at(link, i);
        struct kvasir_request *request = command->request;
        if (request == NULL) {
            continue;
        }
        bool current = i == 0 && link->answer.begun;
        uint32_t index = current ? link->answer.item : command->first;
        uint32_t left = command->count - (current ? link->answer.answered : 0);
        while (left > 0) {
            uint32_t next = request->work[index].next;
            job_fail(request, index, status);
            index = next;
            left--;
        }
    }
    link->command_count = 0;
    abandon_queued_commits(link);
}

#include "client/borrow.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/copy.h"
#include "client/client_impl.h"
#include "client/pipeline.h"
#include "client/view.h"
#include "proto/status_code.h"

/* Fields of one lease: id, length, checksum, extents. */
#define GRANT_LEASE_FIELDS 4U
/* Fields of a reservation: id, deadline, extents. */
#define GRANT_RESERVE_FIELDS 3U

void borrow_staging_done(struct link *link, struct kvasir_request *request, uint32_t index)
{
    size_t bytes = request->work[index].staging_bytes;
    request->work[index].staging_bytes = 0;
    link->staging_used_bytes -= bytes < link->staging_used_bytes ? bytes : link->staging_used_bytes;
}

/* Where the memory is shared, an extent is offset and length; by RDMA its address, key and length. */
static uint32_t extent_words(const struct link *link)
{
    return link_has_shm(link) ? 2 : 3;
}

/* True when this token completes an extent. */
static enum kvasir_status take_extent(struct link *link, const struct reply_token *token,
                                      bool *complete_p)
{
    struct link_answer *answer = &link->answer;
    if (token->kind != REPLY_INTEGER || token->number < 0 || answer->extents_left == 0) {
        return KVASIR_PROTOCOL;
    }
    answer->extent_word++;
    *complete_p = answer->extent_word == extent_words(link);
    if (!*complete_p && answer->extent_word == 1) {
        answer->offset_bytes = (uint64_t)token->number;
        return KVASIR_OK;
    }
    if (!*complete_p) {
        answer->grant_key = (uint64_t)token->number;
        return KVASIR_OK;
    }
    answer->extent_word = 0;
    answer->extents_left--;
    if ((uint64_t)token->number > answer->length_bytes - answer->got_bytes) {
        return KVASIR_PROTOCOL;
    }
    return KVASIR_OK;
}

static enum kvasir_status begin_extents(struct link *link, const struct reply_token *token)
{
    struct link_answer *answer = &link->answer;
    if (token->kind != REPLY_ARRAY || token->count % extent_words(link) != 0) {
        return KVASIR_PROTOCOL;
    }
    answer->extents_left = token->count / extent_words(link);
    answer->extent_word = 0;
    answer->got_bytes = 0;
    answer->status = KVASIR_OK;
    return KVASIR_OK;
}

/* ---- LEASE --------------------------------------------------------------------------------- */

static void next_item(struct link *link, const struct link_command *command)
{
    struct link_answer *answer = &link->answer;
    answer->answered++;
    link->leases_in_flight--;
    if (command->request != NULL) {
        answer->item = command->request->work[answer->item].next;
    }
}

static void view_done(struct link *link, struct kvasir_request *request, uint32_t index)
{
    struct link_answer *answer = &link->answer;
    struct kvasir_client *client = link->client;
    if (answer->status == KVASIR_OK) {
        struct kvasir_view *view = answer->view;
        view->lease_id = answer->grant_id;
        list_push_back(&client->views, &view->member);
        request->views[index] = view;
        answer->view = NULL;
        client_count_payload(client, &request->items[index], false, KVASIR_PATH_SHM,
                             answer->length_bytes);
    } else {
        view_destroy(&answer->view);
        link_release_later(link, answer->grant_id, answer->length_bytes);
    }
}

static void begin_move(struct link *link, struct kvasir_request *request, uint32_t index)
{
    struct link_answer *answer = &link->answer;
    if (answer->length_bytes > 0) {
        answer->move =
            rdma_move_create(link, request, index, answer->length_bytes, answer->extents_left);
        answer->status = answer->move == NULL ? KVASIR_NO_MEMORY : KVASIR_OK;
    }
}

/* The keys are there: the device reads, or the item goes another way. */
static void loan_done(struct link *link, struct kvasir_request *request, uint32_t index)
{
    struct link_answer *answer = &link->answer;
    enum kvasir_status status = answer->status;
    if (status == KVASIR_OK && answer->move != NULL) {
        rdma_move_start(&answer->move, answer->grant_id);
        return;
    }
    rdma_move_discard(&answer->move);
    link_release_later(link, answer->grant_id, answer->length_bytes);
    if (status == KVASIR_OK) {
        client_count_payload(link->client, &request->items[index], false, KVASIR_PATH_RDMA_CLIENT,
                             0);
    }
    if (status == KVASIR_OK || status == KVASIR_TOO_SMALL) {
        job_answer(request, index, status);
    } else {
        link->client->counters.path_fallbacks++;
        job_requeue(request, index, JOB_SERVED);
    }
}

/* All extents of one key were read. The item's place in the command is left before the item may go
 * back into a queue, which uses the same link. */
static enum kvasir_status lease_done(struct link *link, const struct link_command *command)
{
    struct link_answer *answer = &link->answer;
    struct kvasir_request *request = command->request;
    uint32_t index = answer->item;
    if (answer->status == KVASIR_OK && answer->got_bytes != answer->length_bytes &&
        request != NULL) {
        return KVASIR_PROTOCOL;
    }
    next_item(link, command);
    if (request == NULL) {
        link_release_later(link, answer->grant_id, answer->length_bytes);
        return KVASIR_OK;
    }
    request->items[index].length_bytes = answer->length_bytes;
    bool late = clock_mono_us() > command->deadline_us;
    if (late && answer->status == KVASIR_OK) {
        answer->status = KVASIR_EXPIRED;
        link->client->counters.leases_expired++;
    }
    if (!link_has_shm(link)) {
        loan_done(link, request, index);
        return KVASIR_OK;
    }
    if (request->call == JOB_VIEW) {
        view_done(link, request, index);
    } else {
        link_release_later(link, answer->grant_id, answer->length_bytes);
        if (answer->status == KVASIR_OK) {
            client_count_payload(link->client, &request->items[index], false, KVASIR_PATH_SHM,
                                 answer->length_bytes);
        }
    }
    if (answer->status == KVASIR_EXPIRED && request->work[index].lease_tries == 0) {
        request->work[index].lease_tries = 1;
        job_requeue(request, index, JOB_LEASE);
        return KVASIR_OK;
    }
    job_answer(request, index, answer->status);
    return KVASIR_OK;
}

/* No lease for this key: it is absent, or the server says in its place why not. */
static enum kvasir_status lease_refused(struct link *link, const struct link_command *command,
                                        enum kvasir_status status)
{
    uint32_t index = link->answer.item;
    next_item(link, command);
    if (command->request == NULL) {
        return KVASIR_OK;
    }
    if (status != KVASIR_NOT_FOUND && !link_has_shm(link)) {
        link->client->counters.path_fallbacks++;
        job_requeue(command->request, index, JOB_SERVED);
    } else {
        job_answer(command->request, index, status);
    }
    return KVASIR_OK;
}

/* The length is known: where do the bytes go? */
static void lease_open(struct link *link, const struct link_command *command)
{
    struct link_answer *answer = &link->answer;
    struct kvasir_request *request = command->request;
    if (request == NULL) {
        return;
    }
    if (request->call == JOB_VIEW) {
        answer->view = view_create(link, answer->length_bytes, command->deadline_us);
        answer->status = answer->view == NULL ? KVASIR_NO_MEMORY : KVASIR_OK;
        return;
    }
    uint32_t count;
    const struct iovec *segments = job_segments(request, answer->item, &count);
    segment_init(&answer->cursor, segments, count);
    if (segment_total_bytes(segments, count) < answer->length_bytes) {
        answer->status = KVASIR_TOO_SMALL;
    } else if (!link_has_shm(link)) {
        begin_move(link, request, answer->item);
    }
}

/* A piece of what the device is to move. */
static enum kvasir_status add_piece(struct link *link, uint64_t length_bytes)
{
    struct link_answer *answer = &link->answer;
    answer->got_bytes += length_bytes;
    return answer->move != NULL && length_bytes > 0 &&
                   rdma_move_add(answer->move, answer->offset_bytes, answer->grant_key,
                                 length_bytes)
               ? KVASIR_OK
               : KVASIR_PROTOCOL;
}

static enum kvasir_status lease_extent(struct link *link, const struct link_command *command,
                                       uint64_t length_bytes)
{
    struct link_answer *answer = &link->answer;
    const uint8_t *bytes = NULL;
    if (link_has_shm(link)) {
        bytes = shm_map_payload(&link->shm, answer->offset_bytes, length_bytes);
        if (bytes == NULL) {
            return KVASIR_PROTOCOL;
        }
    }
    if (command->request == NULL || answer->status != KVASIR_OK) {
        return KVASIR_OK;
    }
    if (bytes == NULL) {
        return add_piece(link, length_bytes);
    }
    answer->got_bytes += length_bytes;
    if (answer->view != NULL) {
        return view_add(answer->view, bytes, length_bytes) ? KVASIR_OK : KVASIR_PROTOCOL;
    }
    /* Past the deadline the bytes may be another value's: they are not worth the copy. */
    segment_fill(&answer->cursor, bytes, length_bytes);
    return KVASIR_OK;
}

static enum kvasir_status lease_field(struct link *link, const struct link_command *command,
                                      const struct reply_token *token)
{
    struct link_answer *answer = &link->answer;
    uint32_t field = answer->field;
    answer->field++;
    if (field < 2) {
        if (token->kind != REPLY_INTEGER || (field == 1 && token->number < 0)) {
            return KVASIR_PROTOCOL;
        }
        if (field == 0) {
            answer->grant_id = (uint64_t)token->number;
        } else {
            answer->length_bytes = (uint64_t)token->number;
        }
        return KVASIR_OK;
    }
    if (field == 2) {
        return token->kind == REPLY_BULK || token->kind == REPLY_SIMPLE || token->kind == REPLY_NULL
                   ? KVASIR_OK
                   : KVASIR_PROTOCOL;
    }
    if (field >= GRANT_LEASE_FIELDS || begin_extents(link, token) != KVASIR_OK) {
        return KVASIR_PROTOCOL;
    }
    lease_open(link, command);
    return answer->extents_left == 0 ? lease_done(link, command) : KVASIR_OK;
}

enum kvasir_status borrow_lease_token(struct link *link, struct link_command *command,
                                      const struct reply_token *token, int64_t now_us)
{
    (void)now_us; /* copies take long: the clock is read after them */
    struct link_answer *answer = &link->answer;
    if (token->depth == 0) {
        bool fits = token->kind == REPLY_ARRAY && token->count == command->count;
        return fits ? KVASIR_OK : KVASIR_PROTOCOL;
    }
    if (token->depth == 1) {
        answer->field = 0;
        if (token->kind == REPLY_NULL) {
            return lease_refused(link, command, KVASIR_NOT_FOUND);
        }
        if (token->kind == REPLY_ERROR) {
            return lease_refused(link, command, status_code_parse(token->text));
        }
        bool fits = token->kind == REPLY_ARRAY && token->count == GRANT_LEASE_FIELDS;
        return fits ? KVASIR_OK : KVASIR_PROTOCOL;
    }
    if (token->depth == 2) {
        return lease_field(link, command, token);
    }
    bool complete = false;
    enum kvasir_status status = take_extent(link, token, &complete);
    if (status != KVASIR_OK || !complete) {
        return status;
    }
    status = lease_extent(link, command, (uint64_t)token->number);
    if (status != KVASIR_OK || answer->extents_left > 0) {
        return status;
    }
    return lease_done(link, command);
}

/* ---- RESERVE ------------------------------------------------------------------------------- */

/* The bytes are staged; nobody else writes there before this link sends its next command. */
static enum kvasir_status reserve_done(struct link *link, const struct link_command *command)
{
    struct link_answer *answer = &link->answer;
    struct kvasir_request *request = command->request;
    if (request == NULL) {
        pipeline_abort(link, answer->grant_id);
        return KVASIR_OK;
    }
    if (answer->status != KVASIR_OK) {
        pipeline_abort(link, answer->grant_id);
        link->client->counters.path_fallbacks++;
        job_requeue(request, command->first, JOB_SERVED);
        return KVASIR_OK;
    }
    if (answer->got_bytes != answer->length_bytes) {
        return KVASIR_PROTOCOL;
    }
    if (answer->move != NULL) {
        rdma_move_start(&answer->move, answer->grant_id);
        return KVASIR_OK;
    }
    request->work[command->first].grant_id = answer->grant_id;
    job_requeue(request, command->first, JOB_COMMIT);
    return KVASIR_OK;
}

static enum kvasir_status reserve_field(struct link *link, const struct link_command *command,
                                        const struct reply_token *token)
{
    struct link_answer *answer = &link->answer;
    uint32_t field = answer->field;
    answer->field++;
    if (field < 2) {
        if (token->kind != REPLY_INTEGER) {
            return KVASIR_PROTOCOL;
        }
        answer->grant_id = field == 0 ? (uint64_t)token->number : answer->grant_id;
        return KVASIR_OK;
    }
    if (field >= GRANT_RESERVE_FIELDS || begin_extents(link, token) != KVASIR_OK) {
        return KVASIR_PROTOCOL;
    }
    answer->length_bytes = INT64_MAX;
    if (command->request != NULL) {
        uint32_t count;
        const struct iovec *segments = job_segments(command->request, command->first, &count);
        segment_init(&answer->cursor, segments, count);
        answer->length_bytes = segment_total_bytes(segments, count);
        if (!link_has_shm(link)) {
            begin_move(link, command->request, command->first);
        }
    }
    return answer->extents_left == 0 ? reserve_done(link, command) : KVASIR_OK;
}

static enum kvasir_status reserve_extent(struct link *link, const struct link_command *command,
                                         uint64_t length_bytes)
{
    struct link_answer *answer = &link->answer;
    uint8_t *bytes;
    if (!link_has_shm(link)) {
        return command->request != NULL && answer->status == KVASIR_OK
                   ? add_piece(link, length_bytes)
                   : KVASIR_OK;
    }
    bytes = shm_map_staging(&link->shm, answer->offset_bytes, length_bytes);
    if (bytes == NULL) {
        return KVASIR_PROTOCOL;
    }
    answer->got_bytes += length_bytes;
    if (command->request != NULL) {
        segment_drain(&answer->cursor, bytes, length_bytes);
    }
    return KVASIR_OK;
}

enum kvasir_status borrow_reserve_token(struct link *link, struct link_command *command,
                                        const struct reply_token *token, int64_t now_us)
{
    (void)now_us;
    struct link_answer *answer = &link->answer;
    if (token->depth == 0 && token->kind == REPLY_SIMPLE) {
        if (!slice_equal_nocase(token->text, "EXISTS")) {
            return KVASIR_PROTOCOL;
        }
        if (command->request != NULL) {
            borrow_staging_done(link, command->request, command->first);
            job_answer(command->request, command->first, KVASIR_EXISTS);
        }
        return KVASIR_OK;
    }
    if (token->depth == 0) {
        bool fits = token->kind == REPLY_ARRAY && token->count == GRANT_RESERVE_FIELDS;
        return fits ? KVASIR_OK : KVASIR_PROTOCOL;
    }
    if (token->depth == 1) {
        return reserve_field(link, command, token);
    }
    bool complete = false;
    enum kvasir_status status = take_extent(link, token, &complete);
    if (status != KVASIR_OK || !complete) {
        return status;
    }
    status = reserve_extent(link, command, (uint64_t)token->number);
    if (status != KVASIR_OK) {
        return status;
    }
    return answer->extents_left > 0 ? KVASIR_OK : reserve_done(link, command);
}

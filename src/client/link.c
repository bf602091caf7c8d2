#include "client/link.h"

#include "base/check.h"
#include "client/answer.h"
#include "client/client_impl.h"
#include "client/opening.h"
#include "client/pipeline.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Reads per round, so that one busy link does not keep the others and the deadlines waiting. */
#define LINK_READS_MAX  32
#define LINK_VECTOR_MAX 64U
/* Read ahead before a payload: the header and little of what follows, so that nearly all of the
 * payload goes from the socket straight to its place. */
#define LINK_READ_AHEAD_BYTES 64U

struct link *link_create(struct kvasir_client *client, uint32_t index)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return NULL;
    }
    link->client = client;
    link->index = index;
    channel_init(&link->channel);
    queue_pair_init(link);
    link->passed_fds[0] = -1;
    link->passed_fds[1] = -1;
    link->inbox = malloc(LINK_INBOX_BYTES);
    link->greeting = calloc(1, sizeof *link->greeting);
    if (link->inbox == NULL || link->greeting == NULL || !outbox_init(&link->outbox)) {
        free(link->inbox);
        free(link->greeting);
        free(link);
        return NULL;
    }
    return link;
}

static void close_passed(struct link *link)
{
    for (uint32_t i = 0; i < link->passed_fd_count; i++) {
        (void)close(link->passed_fds[i]);
        link->passed_fds[i] = -1;
    }
    link->passed_fd_count = 0;
}

/* Back to nothing; commands in flight were dealt with before. */
static void reset(struct link *link)
{
    queue_pair_reset(link);
    channel_close(&link->channel);
    close_passed(link);
    shm_map_close(&link->shm);
    outbox_reset(&link->outbox);
    reply_reader_init(&link->reader);
    link->state = LINK_DOWN;
    link->inbox_head = 0;
    link->inbox_tail = 0;
    link->skipping_push = false;
    memset(&link->sink, 0, sizeof link->sink);
    memset(&link->answer, 0, sizeof link->answer);
    link->command_first = 0;
    link->command_count = 0;
    link->weight_bytes = 0;
    link->staging_used_bytes = 0;
    link->leases_in_flight = 0;
    link->reserves_in_flight = 0;
    link->release_count = 0;
    link->release_bytes = 0;
    link->generation++;
}

void link_drop(struct link *link, enum kvasir_status status)
{
    queue_pair_reset(
        link); /* whoever is answered from here on may use his memory for something else */
    answer_abandon(link, status);
    rdma_move_abandon(link, status);
    reset(link);
}

void link_destroy(struct link **link_p)
{
    struct link *link = *link_p;
    if (link == NULL) {
        return;
    }
    link_drop(link, KVASIR_CANCELLED);
    outbox_fini(&link->outbox);
    free(link->inbox);
    free(link->greeting);
    free(link);
    *link_p = NULL;
}

/* ---- connecting ---------------------------------------------------------------------------- */

static const struct endpoint *endpoint_in_use(const struct link *link)
{
    return link->own.address_bytes == 0 || link->on_shared ? &link->client->shared : &link->own;
}

static void greet(struct link *link)
{
    link->state = LINK_GREETING;
    opening_hello(link);
}

static void try_endpoint(struct link *link, int64_t now_us)
{
    const struct endpoint *endpoint = endpoint_in_use(link);
    link->attempt_deadline_us = now_us + (int64_t)link->client->options.connect_timeout_ms * 1000;
    link->is_unix = endpoint_is_unix(endpoint);
    link->last_receive_us = now_us;
    enum kvasir_status status = endpoint_open(endpoint, &link->channel.fd);
    if (status == KVASIR_PENDING) {
        link->state = LINK_CONNECTING;
    } else if (status == KVASIR_OK) {
        greet(link);
    } else {
        client_explain(link->client, "%s: %s", endpoint->text, strerror(errno));
        link_attempt_failed(link, KVASIR_CLOSED, now_us);
    }
}

void link_start(struct link *link, int64_t now_us)
{
    check(link->state == LINK_DOWN);
    link->on_shared = false;
    link->client->counters.reconnects += link->generation > 0 ? 1 : 0;
    try_endpoint(link, now_us);
}

void link_give_up(struct link *link, enum kvasir_status status, int64_t now_us)
{
    struct kvasir_client *client = link->client;
    link_drop(link, status);
    link->attempt_status = status;
    client_back_off(client, now_us);
    list_foreach_safe (member, after, &client->requests) {
        struct kvasir_request *request = list_entry(member, struct kvasir_request, member);
        job_fail_queue(request, link->index, status);
    }
}

void link_attempt_failed(struct link *link, enum kvasir_status status, int64_t now_us)
{
    bool other = link->own.address_bytes != 0 && !link->on_shared && status != KVASIR_DENIED &&
                 !endpoint_equal(&link->own, &link->client->shared);
    if (!other) {
        link_give_up(link, status, now_us);
        return;
    }
    /* Any reactor serves any key; this one only costs a hop inside the server. The second attempt
     * cannot lead back here, so this is no recursion without end. */
    link_drop(link, status);
    link->on_shared = true;
    const struct endpoint *endpoint = endpoint_in_use(link);
    link->attempt_deadline_us = now_us + (int64_t)link->client->options.connect_timeout_ms * 1000;
    link->is_unix = endpoint_is_unix(endpoint);
    enum kvasir_status opened = endpoint_open(endpoint, &link->channel.fd);
    if (opened == KVASIR_PENDING) {
        link->state = LINK_CONNECTING;
    } else if (opened == KVASIR_OK) {
        greet(link);
    } else {
        client_explain(link->client, "%s: %s", endpoint->text, strerror(errno));
        link_give_up(link, KVASIR_CLOSED, now_us);
    }
}

/* ---- commands in flight -------------------------------------------------------------------- */

struct link_command *link_command_at(struct link *link, uint32_t position)
{
    check(position < link->command_count);
    return &link->commands[(link->command_first + position) % LINK_COMMANDS_MAX];
}

struct link_command *link_command_push(struct link *link, enum link_command_kind kind)
{
    check(link->command_count < LINK_COMMANDS_MAX);
    link->command_count++;
    struct link_command *command = link_command_at(link, link->command_count - 1);
    *command = (struct link_command){.kind = kind, .out_end = link->outbox.pushed_bytes};
    return command;
}

void link_release_later(struct link *link, uint64_t lease_id, uint64_t length_bytes)
{
    if (link->release_count == LINK_RELEASES_MAX) {
        pipeline_release(link);
    }
    /* Still full only when the server does not answer; the lease then ends at its deadline. */
    if (link->release_count < LINK_RELEASES_MAX) {
        link->releases[link->release_count] = lease_id;
        link->release_count++;
        link->release_bytes += length_bytes;
    }
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* Whether the reply at this position may carry a payload that should not pass through the inbox. */
static size_t read_ahead(struct link *link, uint32_t position, size_t held)
{
    if (held < LINK_READ_AHEAD_BYTES && position < link->command_count) {
        const struct link_command *command = link_command_at(link, position);
        if (command->kind == LINK_GET && command->weight_bytes >= REPLY_BULK_BYTES_MIN) {
            return LINK_READ_AHEAD_BYTES;
        }
    }
    return LINK_INBOX_BYTES;
}

/* Descriptors come along with the reply to KV.CONNECT SHM. */
static ssize_t read_with_descriptors(struct link *link, struct iovec *vector)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof link->passed_fds)];
    } control;
    struct msghdr message = {.msg_iov = vector,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got = recvmsg(link->channel.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) {
        return got;
    }
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        uint32_t count = (uint32_t)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (uint32_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            if (link->passed_fd_count < ARRAY_COUNT(link->passed_fds)) {
                link->passed_fds[link->passed_fd_count] = fd;
                link->passed_fd_count++;
            } else {
                (void)close(fd);
            }
        }
    }
    return got;
}

static ssize_t read_payload(struct link *link)
{
    struct link_sink *sink = &link->sink;
    check(link->inbox_head == link->inbox_tail);
    link->inbox_head = 0;
    link->inbox_tail = 0;
    if (sink->discard) {
        size_t size = sink->left_bytes < LINK_INBOX_BYTES ? sink->left_bytes : LINK_INBOX_BYTES;
        struct iovec vector = {.iov_base = link->inbox, .iov_len = size};
        ssize_t got = channel_receive(&link->channel, &vector, 1);
        sink->left_bytes -= got > 0 ? (size_t)got : 0;
        return got;
    }
    struct iovec vector[LINK_VECTOR_MAX + 1];
    size_t direct;
    uint32_t count =
        segment_peek(&sink->cursor, sink->left_bytes, vector, LINK_VECTOR_MAX, &direct);
    if (direct == sink->left_bytes) {
        vector[count] = (struct iovec){.iov_base = link->inbox, .iov_len = read_ahead(link, 1, 0)};
        count++;
    }
    ssize_t got = channel_receive(&link->channel, vector, count);
    if (got > 0) {
        size_t placed = (size_t)got < direct ? (size_t)got : direct;
        segment_skip(&sink->cursor, placed);
        sink->left_bytes -= placed;
        link->inbox_tail = (size_t)got - placed;
    }
    return got;
}

static ssize_t read_some(struct link *link)
{
    if (link->sink.open && link->sink.left_bytes > 0) {
        return read_payload(link);
    }
    size_t held = link->inbox_tail - link->inbox_head;
    if (link->inbox_head > 0) {
        memmove(link->inbox, link->inbox + link->inbox_head, held);
        link->inbox_head = 0;
        link->inbox_tail = held;
    }
    size_t size = read_ahead(link, link->sink.open ? 1 : 0, held);
    if (size > LINK_INBOX_BYTES - held) {
        size = LINK_INBOX_BYTES - held;
    }
    struct iovec vector = {.iov_base = link->inbox + held, .iov_len = size};
    ssize_t got = link->state == LINK_GREETING && link->is_unix
                      ? read_with_descriptors(link, &vector)
                      : channel_receive(&link->channel, &vector, 1);
    link->inbox_tail += got > 0 ? (size_t)got : 0;
    return got;
}

/* Feeds what is in the inbox to an open sink. True: the sink is closed and the inbox may hold more. */
static enum kvasir_status feed_sink(struct link *link, int64_t now_us, bool *more_p)
{
    struct link_sink *sink = &link->sink;
    size_t held = link->inbox_tail - link->inbox_head;
    size_t step = held < sink->left_bytes ? held : sink->left_bytes;
    if (step > 0 && !sink->discard) {
        segment_fill(&sink->cursor, link->inbox + link->inbox_head, step);
    }
    link->inbox_head += step;
    sink->left_bytes -= step;
    *more_p = false;
    if (sink->left_bytes > 0 || held - step < 2) {
        return KVASIR_OK;
    }
    if (memcmp(link->inbox + link->inbox_head, "\r\n", 2) != 0) {
        return KVASIR_PROTOCOL;
    }
    link->inbox_head += 2;
    sink->open = false;
    *more_p = true;
    if (!link->skipping_push) {
        answer_payload_done(link);
    }
    if (reply_reader_bulk_done(&link->reader)) {
        if (!link->skipping_push) {
            answer_end(link, now_us);
        }
        link->skipping_push = false;
    }
    return KVASIR_OK;
}

static enum kvasir_status take_token(struct link *link, const struct reply_token *token,
                                     int64_t now_us)
{
    if (token->depth == 0 && token->kind == REPLY_PUSH) {
        link->skipping_push = true;
    }
    if (link->skipping_push) {
        if (token->kind == REPLY_BULK_HEADER) {
            link->sink =
                (struct link_sink){.open = true, .discard = true, .left_bytes = token->count};
        } else if (token->ends_reply) {
            link->skipping_push = false;
        }
        return KVASIR_OK;
    }
    if (link->command_count == 0) {
        return KVASIR_PROTOCOL;
    }
    enum kvasir_status status = answer_token(link, token, now_us);
    if (status == KVASIR_OK && token->ends_reply) {
        answer_end(link, now_us);
    }
    return status;
}

static enum kvasir_status consume(struct link *link, int64_t now_us)
{
    for (;;) {
        if (link->sink.open) {
            bool more;
            enum kvasir_status status = feed_sink(link, now_us, &more);
            if (status != KVASIR_OK || !more) {
                return status;
            }
            continue;
        }
        struct reply_token token;
        size_t consumed;
        size_t held = link->inbox_tail - link->inbox_head;
        enum reply_result result = reply_reader_advance(
            &link->reader, link->inbox + link->inbox_head, held, &token, &consumed);
        if (result == REPLY_BROKEN || (result == REPLY_MORE && held == LINK_INBOX_BYTES)) {
            return KVASIR_PROTOCOL;
        }
        if (result == REPLY_MORE) {
            return KVASIR_OK;
        }
        link->inbox_head += consumed;
        enum kvasir_status status = take_token(link, &token, now_us);
        if (status != KVASIR_OK) {
            return status;
        }
    }
}

static void lost(struct link *link, enum kvasir_status status, int64_t now_us)
{
    const char *text = endpoint_in_use(link)->text;
    if (status == KVASIR_PROTOCOL) {
        client_explain(link->client, "%s: the peer does not speak the protocol", text);
    }
    if (link->state == LINK_UP) {
        link_drop(link, status);
    } else {
        link_attempt_failed(link, status, now_us);
    }
}

void link_receive(struct link *link, int64_t now_us)
{
    for (int i = 0; i < LINK_READS_MAX; i++) {
        ssize_t got = read_some(link);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN) {
            return;
        }
        if (got <= 0) {
            client_explain(link->client, "%s: %s", endpoint_in_use(link)->text,
                           got == 0 ? "the server closed the connection" : strerror(errno));
            lost(link, KVASIR_CLOSED, now_us);
            return;
        }
        link->last_receive_us = now_us;
        enum kvasir_status status = consume(link, now_us);
        if (status != KVASIR_OK) {
            lost(link, status, now_us);
            return;
        }
        /* With nothing outstanding another call would only learn that there is nothing. */
        if (link->command_count == 0 && link->inbox_head == link->inbox_tail) {
            return;
        }
    }
}

void link_flush(struct link *link, int64_t now_us)
{
    if (link->channel.fd < 0 || link->state == LINK_CONNECTING || outbox_is_empty(&link->outbox)) {
        return;
    }
    if (outbox_flush(&link->outbox, &link->channel) == KVASIR_CLOSED) {
        /* The peer may have said why before it closed. */
        int reason = errno;
        uint64_t generation = link->generation;
        link_receive(link, now_us);
        if (link->generation == generation) {
            client_explain(link->client, "%s: %s", endpoint_in_use(link)->text, strerror(reason));
            lost(link, KVASIR_CLOSED, now_us);
        }
    }
}

void link_ready(struct link *link, short events, int64_t now_us)
{
    if (link->state == LINK_CONNECTING) {
        if ((events & (POLLOUT | POLLERR | POLLHUP)) == 0) {
            return;
        }
        if (endpoint_finish(link->channel.fd) != KVASIR_OK) {
            client_explain(link->client, "%s: %s", endpoint_in_use(link)->text, strerror(errno));
            link_attempt_failed(link, KVASIR_CLOSED, now_us);
            return;
        }
        greet(link);
        link_flush(link, now_us);
        return;
    }
    if ((events & (POLLIN | POLLERR | POLLHUP)) != 0) {
        channel_listen(&link->channel);
        link_receive(link, now_us);
    }
    if (link->channel.fd >= 0 && (events & POLLOUT) != 0) {
        link_flush(link, now_us);
    }
}

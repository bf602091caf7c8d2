/* fuzz_request_reader – any bytes, read at once and in pieces, give the same requests and the same
 * error. The first byte of the input picks the limits and whether long bulks are taken out of the
 * stream, the second seeds the sizes of the pieces. */
#include "proto/request_reader.h"

#include "base/check.h"

#include <stdlib.h>

#define PIECE_BYTES_MAX 40U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

static const struct reader_limits LIMITS_REDIS = {
    .args_max = 1024 * 1024, .bulk_bytes_max = 512ULL << 20, .inline_bytes_max = 64U << 10};
/* So small that their errors are within reach of short inputs. */
static const struct reader_limits LIMITS_SMALL = {
    .args_max = 40, .bulk_bytes_max = 100, .inline_bytes_max = 64};

/* One reader over one stream, with the buffer that a connection would keep. */
struct run {
    struct request_reader reader;
    const struct reader_limits *limits;
    bool takes_bulks;   /* takes long bulks out of the stream instead of waiting for them */
    struct slice *args; /* owned */
    uint32_t args_capacity;
    uint8_t *buffer; /* owned; exactly the unread bytes, so that a read beyond them shows */
    size_t buffer_bytes;
    size_t bulk_at;     /* where a bulk being taken begins in the buffer */
    uint64_t bulk_left; /* of it, without its CRLF */
    bool taking;
    bool broken;
    uint64_t digest; /* of all that was read */
    uint64_t request_count;
};

static void *must(void *memory)
{
    check(memory != NULL);
    return memory;
}

static void digest_bytes(struct run *run, const uint8_t *data, size_t length_bytes)
{
    for (size_t i = 0; i < length_bytes; i++) {
        run->digest = (run->digest ^ data[i]) * 1099511628211ULL;
    }
}

static void digest_number(struct run *run, uint64_t number)
{
    digest_bytes(run, (const uint8_t *)&number, sizeof(number));
}

static void run_init(struct run *run, uint8_t choice)
{
    *run = (struct run){.limits = &LIMITS_REDIS, .args_capacity = READER_ARGS_CAPACITY_MIN};
    if (choice % 3 == 1) {
        run->limits = &LIMITS_SMALL;
    } else if (choice % 3 == 2) {
        run->limits = &READER_LIMITS_UNAUTHENTICATED;
    }
    run->takes_bulks = (choice & 0x80) != 0;
    run->args = must(malloc(run->args_capacity * sizeof(struct slice)));
    run->buffer = must(malloc(1));
    request_reader_init(&run->reader);
}

static void run_fini(struct run *run)
{
    free(run->args);
    free(run->buffer);
}

/* Cuts length_bytes out of the buffer at offset at. The rest moves to new memory, so that whatever
 * still points at the old shows. */
static void run_cut(struct run *run, size_t at, size_t length_bytes)
{
    check(at + length_bytes <= run->buffer_bytes);
    size_t left = run->buffer_bytes - length_bytes;
    uint8_t *buffer = must(malloc(left > 0 ? left : 1));
    memcpy(buffer, run->buffer, at);
    memcpy(buffer + at, run->buffer + at + length_bytes, left - at);
    free(run->buffer);
    run->buffer = buffer;
    run->buffer_bytes = left;
}

static void run_append(struct run *run, const uint8_t *data, size_t length_bytes)
{
    uint8_t *buffer = must(malloc(run->buffer_bytes + length_bytes + 1));
    memcpy(buffer, run->buffer, run->buffer_bytes);
    memcpy(buffer + run->buffer_bytes, data, length_bytes);
    free(run->buffer);
    run->buffer_bytes += length_bytes;
    run->buffer = must(malloc(run->buffer_bytes > 0 ? run->buffer_bytes : 1));
    memcpy(run->buffer, buffer, run->buffer_bytes);
    free(buffer);
}

/* Takes what is there of a long bulk. False: more of it is to come. */
static bool run_take_bulk(struct run *run)
{
    if (!run->taking) {
        return true;
    }
    size_t part = run->buffer_bytes - run->bulk_at;
    if (part > run->bulk_left) {
        part = run->bulk_left;
    }
    digest_bytes(run, run->buffer + run->bulk_at, part);
    run_cut(run, run->bulk_at, part);
    run->bulk_left -= part;
    if (run->bulk_left > 0) {
        return false;
    }
    request_reader_bulk_done(&run->reader);
    run->taking = false;
    return true;
}

static void run_request(struct run *run, size_t consumed)
{
    check(run->reader.arg_count >= 1);
    check(run->reader.arg_count <= run->args_capacity);
    digest_number(run, run->reader.arg_count);
    for (uint32_t i = 0; i < run->reader.arg_count; i++) {
        digest_number(run, run->args[i].length_bytes);
        if (run->args[i].data != NULL) {
            digest_bytes(run, run->args[i].data, run->args[i].length_bytes);
        }
    }
    run->request_count++;
    run_cut(run, 0, consumed);
    check(request_reader_idle(&run->reader));
}

static void run_bulk(struct run *run, size_t consumed)
{
    check(run->reader.bulk_bytes >= READER_BULK_BYTES_MIN);
    check(run->reader.bulk_index == run->reader.arg_count);
    check(consumed <= run->buffer_bytes);
    if (run->takes_bulks) {
        run->taking = true;
        run->bulk_at = consumed;
        run->bulk_left = run->reader.bulk_bytes;
    } else {
        request_reader_accept_bulk(&run->reader);
    }
}

static void run_grow_args(struct run *run)
{
    check(run->reader.args_wanted > run->args_capacity);
    run->args_capacity = run->reader.args_wanted;
    run->args = must(realloc(run->args, run->args_capacity * sizeof(struct slice)));
}

static void run_feed(struct run *run, const uint8_t *data, size_t length_bytes)
{
    run_append(run, data, length_bytes);
    while (!run->broken && run_take_bulk(run)) {
        size_t consumed = 0;
        enum reader_result result =
            request_reader_advance(&run->reader, run->buffer, run->buffer_bytes, run->limits,
                                   run->args, run->args_capacity, &consumed);
        switch (result) {
        case READER_MORE:
            run_cut(run, 0, consumed);
            check(request_reader_bytes_wanted(&run->reader) > run->buffer_bytes);
            return;
        case READER_REQUEST:
            run_request(run, consumed);
            break;
        case READER_BULK:
            run_bulk(run, consumed);
            break;
        case READER_ARGS_FULL:
            run_grow_args(run);
            break;
        case READER_ERROR:
            check(run->reader.error != NULL);
            run->broken = true;
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    if (length_bytes < 2) {
        return 0;
    }
    uint8_t choice = data[0];
    uint32_t random = data[1];
    data += 2;
    length_bytes -= 2;
    struct run whole;
    run_init(&whole, choice);
    run_feed(&whole, data, length_bytes);
    struct run pieces;
    run_init(&pieces, choice);
    for (size_t at = 0; at < length_bytes;) {
        random = random * 1664525U + 1013904223U;
        size_t piece = 1 + (random >> 16) % PIECE_BYTES_MAX;
        /* Long inputs in longer pieces, so that the copies stay few. */
        piece += length_bytes / 64;
        piece = piece < length_bytes - at ? piece : length_bytes - at;
        run_feed(&pieces, data + at, piece);
        at += piece;
    }
    check(whole.broken == pieces.broken);
    check(whole.request_count == pieces.request_count);
    check(whole.digest == pieces.digest);
    if (whole.broken) {
        check(strcmp(whole.reader.error, pieces.reader.error) == 0);
    } else {
        /* Empty requests in front of a long bulk stay in the buffer until the request is whole, so
         * what is kept of an unfinished request may differ by them. */
        check(request_reader_idle(&whole.reader) == request_reader_idle(&pieces.reader));
        check(!request_reader_idle(&whole.reader) || whole.buffer_bytes == 0);
        check(!request_reader_idle(&pieces.reader) || pieces.buffer_bytes == 0);
        check(whole.reader.state == pieces.reader.state);
    }
    run_fini(&whole);
    run_fini(&pieces);
    return 0;
}

/* fuzz_reply_reader – any bytes, read at once and in pieces, give the same tokens and the same
 * error, within the promised depth. The first byte of the input seeds the sizes of the pieces. */
#include "proto/reply_reader.h"

#include "base/check.h"

#include <stdlib.h>

#define PIECE_BYTES_MAX 24U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

/* One reader over one stream, with the buffer that a connection would keep. */
struct run {
    struct reply_reader reader;
    uint8_t *buffer; /* owned; exactly the unread bytes, so that a read beyond them shows */
    size_t buffer_bytes;
    uint64_t bulk_left; /* of an open bulk, with its CRLF */
    bool broken;
    uint64_t digest; /* of all that was read */
    uint64_t token_count;
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

static void run_init(struct run *run)
{
    *run = (struct run){.buffer = must(malloc(1))};
    reply_reader_init(&run->reader);
}

/* Drops drop_bytes from the front and appends, in new memory of exactly the size. */
static void run_move(struct run *run, size_t drop_bytes, const uint8_t *data, size_t length_bytes)
{
    check(drop_bytes <= run->buffer_bytes);
    size_t left = run->buffer_bytes - drop_bytes;
    size_t total = left + length_bytes;
    uint8_t *buffer = must(malloc(total > 0 ? total : 1));
    memcpy(buffer, run->buffer + drop_bytes, left);
    if (length_bytes > 0) {
        memcpy(buffer + left, data, length_bytes);
    }
    free(run->buffer);
    run->buffer = buffer;
    run->buffer_bytes = total;
}

/* Takes what is there of a long bulk. False: more of it is to come. */
static bool run_take_bulk(struct run *run)
{
    if (!run->reader.bulk_open) {
        return true;
    }
    size_t part = run->buffer_bytes < run->bulk_left ? run->buffer_bytes : run->bulk_left;
    digest_bytes(run, run->buffer, part);
    run_move(run, part, NULL, 0);
    run->bulk_left -= part;
    if (run->bulk_left > 0) {
        return false;
    }
    bool ends_reply = reply_reader_bulk_done(&run->reader);
    check(ends_reply == (run->reader.depth == 0));
    digest_number(run, ends_reply);
    return true;
}

static void run_token(struct run *run, const struct reply_token *token, size_t consumed)
{
    check(consumed > 0);
    check(token->depth <= REPLY_DEPTH_MAX);
    check(run->reader.depth <= REPLY_DEPTH_MAX);
    check(!token->ends_reply || run->reader.depth == 0);
    digest_number(run, token->kind);
    digest_number(run, token->depth);
    digest_number(run, token->count);
    digest_number(run, (uint64_t)token->number);
    digest_number(run, token->ends_reply);
    digest_bytes(run, token->text.data, token->text.length_bytes);
    run->token_count++;
    run->bulk_left = token->count + 2;
    run_move(run, consumed, NULL, 0);
}

static void run_feed(struct run *run, const uint8_t *data, size_t length_bytes)
{
    run_move(run, 0, data, length_bytes);
    while (!run->broken && run_take_bulk(run)) {
        struct reply_token token = {.kind = REPLY_NULL};
        size_t consumed = 0;
        enum reply_result result =
            reply_reader_advance(&run->reader, run->buffer, run->buffer_bytes, &token, &consumed);
        if (result == REPLY_MORE) {
            return;
        }
        if (result == REPLY_BROKEN) {
            check(run->reader.error != NULL);
            run->broken = true;
            return;
        }
        run_token(run, &token, consumed);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    if (length_bytes < 1) {
        return 0;
    }
    uint32_t random = data[0];
    data += 1;
    length_bytes -= 1;
    struct run whole;
    run_init(&whole);
    run_feed(&whole, data, length_bytes);
    struct run pieces;
    run_init(&pieces);
    for (size_t at = 0; at < length_bytes;) {
        random = random * 1664525U + 1013904223U;
        size_t piece = 1 + (random >> 16) % PIECE_BYTES_MAX + length_bytes / 64;
        piece = piece < length_bytes - at ? piece : length_bytes - at;
        run_feed(&pieces, data + at, piece);
        at += piece;
    }
    check(whole.broken == pieces.broken);
    check(whole.token_count == pieces.token_count);
    check(whole.digest == pieces.digest);
    if (whole.broken) {
        check(strcmp(whole.reader.error, pieces.reader.error) == 0);
    } else {
        check(whole.buffer_bytes == pieces.buffer_bytes);
        check(whole.reader.depth == pieces.reader.depth);
    }
    free(whole.buffer);
    free(pieces.buffer);
    return 0;
}

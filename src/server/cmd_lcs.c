/* The table of dynamic programming is filled by rows, some of them a turn. Of it one row of lengths is
 * kept, and a bit for each cell: which neighbour the way back takes where the bytes differ. */

#include "server/cmd_lcs.h"

#include "base/copy.h"
#include "server/kept.h"
#include "server/reply.h"

#include <string.h>

/* Cells in one turn: about a millisecond. */
#define CELLS_A_TURN (1U << 19)

/* request->flags of this file. */
#define FLAG_LENGTH       1U
#define FLAG_RANGES       2U
#define FLAG_MATCH_LENGTH 4U

/* request->next_arg of this file: the round. */
enum lcs_round {
    LCS_LOOK,
    LCS_WORK,
};

/* Where things are in the request's memory. */
struct table {
    size_t a_bytes, b_bytes;
    uint32_t *row; /* b_bytes + 1 lengths */
    uint8_t *a, *b;
    uint8_t *up;   /* bit per cell */
    uint8_t *text; /* the subsequence */
};

struct range {
    size_t a_first, a_last, b_first, b_last;
};

static size_t length_of(const struct kept *kept, uint32_t index)
{
    return kept->values[index] == NULL ? 0 : kept->values[index]->length_bytes;
}

static struct table table_of(const struct kept *kept)
{
    struct table table = {.a_bytes = length_of(kept, 0), .b_bytes = length_of(kept, 1)};
    table.row = (uint32_t *)(void *)kept->memory;
    table.a = (uint8_t *)(table.row + table.b_bytes + 1);
    table.b = table.a + table.a_bytes;
    table.text = table.b + table.b_bytes;
    table.up = table.text + (table.a_bytes < table.b_bytes ? table.a_bytes : table.b_bytes);
    return table;
}

/* 0: more than can be counted. */
static size_t memory_of(size_t a_bytes, size_t b_bytes, bool length_only)
{
    size_t cells = 0;
    if (!length_only && __builtin_mul_overflow(a_bytes, b_bytes, &cells)) {
        return 0;
    }
    return (b_bytes + 1) * sizeof(uint32_t) + 2 * (a_bytes + b_bytes) + cells / 8 + 1;
}

static bool parse(struct request *request)
{
    for (uint32_t i = 3; i < request->arg_count; i++) {
        struct slice word = request->args[i];
        if (slice_equal_nocase(word, "idx")) {
            request->flags |= FLAG_RANGES;
        } else if (slice_equal_nocase(word, "len")) {
            request->flags |= FLAG_LENGTH;
        } else if (slice_equal_nocase(word, "withmatchlen")) {
            request->flags |= FLAG_MATCH_LENGTH;
        } else if (slice_equal_nocase(word, "minmatchlen") && i + 1 < request->arg_count) {
            i++;
            if (!slice_to_i64(request->args[i], &request->number)) {
                request_refuse(request, ERROR_NOT_INTEGER);
                return false;
            }
        } else {
            request_refuse(request, ERROR_SYNTAX);
            return false;
        }
    }
    if ((request->flags & FLAG_LENGTH) != 0 && (request->flags & FLAG_RANGES) != 0) {
        request_refuse(request,
                       "ERR If you want both the length and indexes, please just use IDX.");
        return false;
    }
    return true;
}

static void fill_row(const struct table *table, size_t i, bool length_only)
{
    uint32_t diagonal = 0;
    for (size_t j = 1; j <= table->b_bytes; j++) {
        uint32_t above = table->row[j];
        uint32_t left = table->row[j - 1];
        if (table->a[i] == table->b[j - 1]) {
            table->row[j] = diagonal + 1;
        } else if (above > left) {
            size_t cell = i * table->b_bytes + j - 1;
            if (!length_only) {
                table->up[cell / 8] |= (uint8_t)(1U << (cell % 8));
            }
        } else {
            table->row[j] = left;
        }
        diagonal = above;
    }
}

void cmd_lcs_plan(struct conn *conn, struct request *request)
{
    struct table table;
    size_t rows;
    if (request->next_arg == LCS_LOOK) {
        if (!parse(request)) {
            return;
        }
        (void)batch_add_op(conn->batch, request, OP_GET, request->args[1]);
        (void)batch_add_op(conn->batch, request, OP_GET, request->args[2]);
        request->more = true;
        return;
    }
    table = table_of(request->kept);
    rows = CELLS_A_TURN / (table.b_bytes + 1) + 1;
    while (rows > 0 && (size_t)request->count < table.a_bytes) {
        fill_row(&table, (size_t)request->count, (request->flags & FLAG_LENGTH) != 0);
        request->count++;
        rows--;
    }
    request->more = (size_t)request->count < table.a_bytes;
    if (request->more) {
        conn_yield(conn);
    }
}

/* ---- the way back ---- */

static void reply_range(struct conn *conn, const struct request *request, const struct range *range)
{
    bool with_length = (request->flags & FLAG_MATCH_LENGTH) != 0;
    reply_array(conn, with_length ? 3 : 2);
    reply_array(conn, 2);
    reply_integer(conn, (int64_t)range->a_first);
    reply_integer(conn, (int64_t)range->a_last);
    reply_array(conn, 2);
    reply_integer(conn, (int64_t)range->b_first);
    reply_integer(conn, (int64_t)range->b_last);
    if (with_length) {
        reply_integer(conn, (int64_t)(range->a_last - range->a_first + 1));
    }
}

/* A run of common bytes has ended. Returns whether it is long enough; writes it when asked. */
static bool end_range(struct conn *conn, const struct request *request, const struct range *range,
                      bool write)
{
    if ((int64_t)(range->a_last - range->a_first + 1) < request->number) {
        return false;
    }
    if (write) {
        reply_range(conn, request, range);
    }
    return true;
}

/* From the ends of both strings to a start of one. Returns how many ranges there are; writes them when
 * asked, and the subsequence into its place. */
static uint64_t walk_back(struct conn *conn, const struct request *request,
                          const struct table *table, bool write)
{
    size_t i = table->a_bytes;
    size_t j = table->b_bytes;
    size_t at = table->row[table->b_bytes];
    struct range range = {0};
    bool open = false;
    uint64_t count = 0;
    while (i > 0 && j > 0) {
        size_t cell = (i - 1) * table->b_bytes + j - 1;
        if (table->a[i - 1] == table->b[j - 1]) {
            table->text[--at] = table->a[i - 1];
            i--;
            j--;
            if (!open) {
                range = (struct range){.a_last = i, .b_last = j};
            }
            open = true;
            range.a_first = i;
            range.b_first = j;
            continue;
        }
        count += open && end_range(conn, request, &range, write);
        open = false;
        if ((table->up[cell / 8] >> (cell % 8) & 1U) != 0) {
            i--;
        } else {
            j--;
        }
    }
    return count + (open && end_range(conn, request, &range, write));
}

static void reply_result(struct conn *conn, struct request *request)
{
    struct table table = table_of(request->kept);
    uint32_t length = table.row[table.b_bytes];
    uint64_t count;
    if ((request->flags & FLAG_LENGTH) != 0) {
        reply_integer(conn, length);
        return;
    }
    count = walk_back(conn, request, &table, false);
    if ((request->flags & FLAG_RANGES) == 0) {
        reply_bulk(conn, slice_of(table.text, length));
        return;
    }
    reply_map(conn, 2);
    reply_text(conn, "matches");
    reply_array(conn, count);
    (void)walk_back(conn, request, &table, true);
    reply_pair_integer(conn, "len", length);
}

static void copy_out(struct conn *conn, const struct value *value, uint8_t *to)
{
    struct layout_cursor cursor;
    if (value == NULL) {
        return;
    }
    layout_cursor_init(&cursor, conn->reactor->server->payload, &value->layout,
                       value->length_bytes);
    for (size_t left = value->length_bytes; left > 0;) {
        struct iovec piece = layout_cursor_peek(&cursor);
        copy_payload(to, piece.iov_base, piece.iov_len);
        layout_cursor_skip(&cursor, piece.iov_len);
        to += piece.iov_len;
        left -= piece.iov_len;
    }
}

static void begin_work(struct conn *conn, struct request *request)
{
    struct batch_op *entries = &conn->batch->ops[request->op_first];
    size_t bytes[2];
    size_t memory_bytes;
    struct table table;
    for (uint32_t i = 0; i < 2; i++) {
        bytes[i] = entries[i].op.value == NULL ? 0 : entries[i].op.value->length_bytes;
    }
    memory_bytes = memory_of(bytes[0], bytes[1], (request->flags & FLAG_LENGTH) != 0);
    request->kept = memory_bytes == 0 ? NULL : kept_create(conn->reactor, 2, memory_bytes);
    if (request->kept == NULL) {
        request->more = false;
        reply_error(conn, "ERR Insufficient memory, the table for LCS of strings this long exceeds "
                          "64mb (a bit for each pair of bytes); LEN alone needs less");
        return;
    }
    kept_add(request->kept, entries[0].shard, &entries[0].op.value);
    kept_add(request->kept, entries[1].shard, &entries[1].op.value);
    table = table_of(request->kept);
    copy_out(conn, request->kept->values[0], table.a);
    copy_out(conn, request->kept->values[1], table.b);
    request->next_arg = LCS_WORK;
}

void cmd_lcs_reply(struct conn *conn, struct request *request)
{
    if (request->next_arg == LCS_LOOK) {
        begin_work(conn, request);
    } else if (!request->more) {
        reply_result(conn, request);
    }
}

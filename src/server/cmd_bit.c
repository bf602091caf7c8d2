#include "server/cmd_bit.h"

#include "base/check.h"
#include "server/cmd_string.h"
#include "server/kept.h"
#include "server/reply.h"

#define ERROR_OFFSET    "ERR bit offset is not an integer or out of range"
#define ERROR_NO_MEMORY "ERR out of memory for the fields of this request; ask for fewer at a time"

/* BITOP looks at this many strings at most, so that a step of its work stays short. */
#define BITOP_KEYS_MAX 1024U

/* ---- arguments ---- */

/* An offset in bits; "#3" counts in fields of bit_count (0: not allowed). */
static bool parse_offset(const struct conn *conn, struct slice text, unsigned bit_count,
                         uint64_t *offset_p)
{
    int64_t offset;
    bool counted = bit_count > 0 && text.length_bytes > 0 && text.data[0] == '#';
    if (counted) {
        text = slice_of(text.data + 1, text.length_bytes - 1);
    }
    if (!slice_to_i64(text, &offset) || offset < 0 ||
        (counted && __builtin_mul_overflow(offset, (int64_t)bit_count, &offset)) ||
        (uint64_t)offset >> 3 >= conn->reactor->settings.proto_max_bulk_len) {
        return false;
    }
    *offset_p = (uint64_t)offset;
    return true;
}

/* i1 to i64, u1 to u63. */
static bool parse_type(struct slice text, struct op_field *field)
{
    int64_t count;
    bool is_signed = text.length_bytes > 0 && text.data[0] == 'i';
    if (text.length_bytes < 2 || (!is_signed && text.data[0] != 'u') ||
        !slice_to_i64(slice_of(text.data + 1, text.length_bytes - 1), &count) || count < 1 ||
        count > (is_signed ? 64 : 63)) {
        return false;
    }
    field->is_signed = is_signed;
    field->bit_count = (uint8_t)count;
    return true;
}

/* ---- SETBIT, GETBIT ---- */

static void plan_bit(struct conn *conn, struct request *request, const struct op_field *field)
{
    struct batch *batch = conn->batch;
    struct op *op = batch_add_op(batch, request, OP_FIELDS, request->args[1]);
    op->fields = &batch->fields[batch->field_count++];
    op->field_count = 1;
    *op->fields = *field;
}

void cmd_bit_plan_setbit(struct conn *conn, struct request *request)
{
    struct op_field field = {.kind = OP_FIELD_SET, .bit_count = 1};
    if (!parse_offset(conn, request->args[2], 0, &field.offset_bits)) {
        request_refuse(request, ERROR_OFFSET);
    } else if (!slice_to_i64(request->args[3], &field.number) || field.number < 0 ||
               field.number > 1) {
        request_refuse(request, "ERR bit is not an integer or out of range");
    } else {
        plan_bit(conn, request, &field);
    }
}

void cmd_bit_plan_getbit(struct conn *conn, struct request *request)
{
    struct op_field field = {.kind = OP_FIELD_GET, .bit_count = 1};
    if (!parse_offset(conn, request->args[2], 0, &field.offset_bits)) {
        request_refuse(request, ERROR_OFFSET);
    } else {
        plan_bit(conn, request, &field);
    }
}

static void reply_fields_failure(struct conn *conn, const struct op *op)
{
    if (op->status == KVASIR_TOO_LARGE) {
        reply_error(conn, ERROR_TOO_LONG);
    } else {
        reply_status(conn, op->status);
    }
}

void cmd_bit_reply_bit(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (op->status == KVASIR_OK) {
        reply_integer(conn, op->fields[0].number);
    } else {
        reply_fields_failure(conn, op);
    }
}

/* ---- BITFIELD ---- */

static bool parse_overflow(struct request *request, struct slice word, uint8_t *overflow)
{
    static const char *const words[] = {"wrap", "sat", "fail"};
    for (uint8_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (slice_equal_nocase(word, words[i])) {
            *overflow = i;
            return true;
        }
    }
    request_refuse(request, "ERR Invalid OVERFLOW type specified");
    return false;
}

/* GET type offset, SET type offset number, INCRBY type offset number. Moves *index_p to its last word. */
static bool parse_field(struct conn *conn, struct request *request, uint32_t *index_p,
                        struct op_field *field)
{
    static const char *const words[] = {"get", "set", "incrby"};
    uint32_t index = *index_p;
    uint32_t behind = request->arg_count - index - 1;
    unsigned kind = 0;
    while (kind < ARRAY_COUNT(words) && !slice_equal_nocase(request->args[index], words[kind])) {
        kind++;
    }
    if (kind == ARRAY_COUNT(words) || behind < (kind == OP_FIELD_GET ? 2 : 3)) {
        request_refuse(request, ERROR_SYNTAX);
        return false;
    }
    field->kind = (uint8_t)kind;
    if (!parse_type(request->args[index + 1], field)) {
        request_refuse(request, "ERR Invalid bitfield type. Use something like i16 u8. Note that "
                                "u64 is not supported but i64 is.");
        return false;
    }
    if (!parse_offset(conn, request->args[index + 2], field->bit_count, &field->offset_bits)) {
        request_refuse(request, ERROR_OFFSET);
        return false;
    }
    if (kind != OP_FIELD_GET && !slice_to_i64(request->args[index + 3], &field->number)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return false;
    }
    *index_p = index + (kind == OP_FIELD_GET ? 2 : 3);
    return true;
}

static void plan_bitfield(struct conn *conn, struct request *request, bool read_only)
{
    struct op_field *fields;
    struct op *op;
    uint8_t overflow = OP_OVERFLOW_WRAP;
    bool writes = false;
    uint32_t count = 0;
    /* A field takes three words or more. */
    request->kept =
        kept_create(conn->reactor, 0, (request->arg_count / 3 + 1) * sizeof(struct op_field));
    if (request->kept == NULL) {
        request_refuse(request, ERROR_NO_MEMORY);
        return;
    }
    fields = (struct op_field *)(void *)request->kept->memory;
    for (uint32_t i = 2; i < request->arg_count; i++) {
        bool changes_overflow =
            slice_equal_nocase(request->args[i], "overflow") && i + 1 < request->arg_count;
        if (changes_overflow) {
            i++;
            if (!parse_overflow(request, request->args[i], &overflow)) {
                return;
            }
            continue;
        }
        fields[count] = (struct op_field){.overflow = overflow};
        if (!parse_field(conn, request, &i, &fields[count])) {
            return;
        }
        writes = writes || fields[count].kind != OP_FIELD_GET;
        count++;
    }
    if (writes && read_only) {
        request_refuse(request, "ERR BITFIELD_RO only supports the GET subcommand");
        return;
    }
    op = batch_add_op(conn->batch, request, OP_FIELDS, request->args[1]);
    op->fields = fields;
    op->field_count = count;
}

void cmd_bit_plan_bitfield(struct conn *conn, struct request *request)
{
    plan_bitfield(conn, request, false);
}

void cmd_bit_plan_bitfield_ro(struct conn *conn, struct request *request)
{
    plan_bitfield(conn, request, true);
}

void cmd_bit_reply_bitfield(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (op->status != KVASIR_OK) {
        reply_fields_failure(conn, op);
        return;
    }
    reply_array(conn, op->field_count);
    for (uint32_t i = 0; i < op->field_count; i++) {
        if (op->fields[i].refused) {
            reply_null(conn);
        } else {
            reply_integer(conn, op->fields[i].number);
        }
    }
}

/* ---- BITCOUNT, BITPOS ---- */

static bool parse_unit(struct slice word, struct op_range *range)
{
    range->in_bits = slice_equal_nocase(word, "bit");
    return range->in_bits || slice_equal_nocase(word, "byte");
}

/* [start [end [BYTE | BIT]]] from args[first] on; NULL, or why not. Of several mistakes each command
 * tells the one that Redis tells. */
static const char *parse_range(const struct request *request, uint32_t first, bool for_count,
                               struct op_range *range)
{
    const struct slice *words = request->args + first;
    uint32_t count = request->arg_count - first;
    range->whole = count == 0;
    range->open = count == 1;
    if (count > 3 || (for_count && count == 1)) {
        return ERROR_SYNTAX;
    }
    if (count > 0 && !slice_to_i64(words[0], &range->start)) {
        return ERROR_NOT_INTEGER;
    }
    if (count > 2 && !for_count && !parse_unit(words[2], range)) {
        return ERROR_SYNTAX;
    }
    if (count > 1 && !slice_to_i64(words[1], &range->end)) {
        return ERROR_NOT_INTEGER;
    }
    if (count > 2 && for_count && !parse_unit(words[2], range)) {
        bool empty = range->start < 0 && range->end < 0 && range->start > range->end;
        return empty ? NULL : ERROR_SYNTAX;
    }
    return NULL;
}

/* As in Redis a range is only looked at when there is something to look into. */
static void plan_range(struct conn *conn, struct request *request, enum op_kind kind,
                       const struct op_range *range, const char *error)
{
    struct op *op =
        batch_add_op(conn->batch, request, error == NULL ? kind : OP_EXISTS, request->args[1]);
    request->error = error;
    if (error == NULL) {
        op->range = *range;
    }
}

void cmd_bit_plan_bitcount(struct conn *conn, struct request *request)
{
    struct op_range range = {0};
    const char *error = parse_range(request, 2, true, &range);
    plan_range(conn, request, OP_BIT_COUNT, &range, error);
}

void cmd_bit_plan_bitpos(struct conn *conn, struct request *request)
{
    struct op_range range = {0};
    int64_t bit;
    const char *error;
    if (!slice_to_i64(request->args[2], &bit)) {
        request_refuse(request, ERROR_NOT_INTEGER);
        return;
    }
    if (bit != 0 && bit != 1) {
        request_refuse(request, "ERR The bit argument must be 1 or 0.");
        return;
    }
    range.bit = bit != 0;
    request->number = bit;
    error = parse_range(request, 3, false, &range);
    plan_range(conn, request, OP_BIT_FIND, &range, error);
}

static void reply_range(struct conn *conn, struct request *request, int64_t absent)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (op->status == KVASIR_NOT_FOUND) {
        reply_integer(conn, absent);
    } else if (op->status != KVASIR_OK) {
        reply_status(conn, op->status);
    } else if (request->error != NULL) {
        reply_error(conn, request->error);
    } else {
        reply_integer(conn, op->integer);
    }
}

void cmd_bit_reply_bitcount(struct conn *conn, struct request *request)
{
    reply_range(conn, request, 0);
}

void cmd_bit_reply_bitpos(struct conn *conn, struct request *request)
{
    reply_range(conn, request, request->number != 0 ? -1 : 0);
}

/* ---- BITOP: first all strings are pinned, then the result is made of them ---- */

static bool parse_bitop(struct request *request)
{
    static const struct {
        const char *word;
        enum op_combine combine;
    } words[] = {{"and", OP_COMBINE_AND},
                 {"or", OP_COMBINE_OR},
                 {"xor", OP_COMBINE_XOR},
                 {"not", OP_COMBINE_NOT}};
    unsigned i = 0;
    while (i < ARRAY_COUNT(words) && !slice_equal_nocase(request->args[1], words[i].word)) {
        i++;
    }
    if (i == ARRAY_COUNT(words)) {
        request_refuse(request, ERROR_SYNTAX);
        return false;
    }
    request->flags = words[i].combine;
    if (words[i].combine == OP_COMBINE_NOT && request->arg_count != 4) {
        request_refuse(request, "ERR BITOP NOT must be called with a single source key.");
        return false;
    }
    if (request->arg_count - 3 > BITOP_KEYS_MAX) {
        request_refuse(request, "ERR BITOP takes up to 1024 source keys");
        return false;
    }
    return true;
}

/* Whether any of the strings has a byte. */
static bool any_bytes(const struct kept *kept)
{
    for (uint32_t i = 0; i < kept->value_count; i++) {
        if (kept->values[i] != NULL && kept->values[i]->length_bytes > 0) {
            return true;
        }
    }
    return false;
}

static void plan_bitop_result(struct conn *conn, struct request *request)
{
    struct kept *kept = request->kept;
    struct op *op;
    if (!any_bytes(kept)) {
        (void)batch_add_op(conn->batch, request, OP_REMOVE, request->args[2]);
        return;
    }
    op = batch_add_op(conn->batch, request, OP_SET_FROM, request->args[2]);
    op->combine = (uint8_t)request->flags;
    op->sources = kept->values;
    op->source_count = kept->value_count;
}

void cmd_bit_plan_bitop(struct conn *conn, struct request *request)
{
    uint32_t i = request->next_arg != 0 ? request->next_arg : 3;
    if (request->next_arg == 0) {
        if (!parse_bitop(request)) {
            return;
        }
        request->kept = kept_create(conn->reactor, request->arg_count - 3, 0);
        if (request->kept == NULL) {
            request_refuse(request, ERROR_NO_MEMORY);
            return;
        }
    }
    if (i == request->arg_count) {
        plan_bitop_result(conn, request);
        return;
    }
    for (; i < request->arg_count && batch_op_room(conn->batch) > 0; i++) {
        (void)batch_add_op(conn->batch, request, OP_GET, request->args[i]);
    }
    request->next_arg = i;
    request->more = true;
}

void cmd_bit_reply_bitop(struct conn *conn, struct request *request)
{
    const struct op *op = batch_op(conn->batch, request, 0);
    if (request->more) {
        for (uint32_t i = 0; i < request->op_count; i++) {
            struct batch_op *entry = &conn->batch->ops[request->op_first + i];
            kept_add(request->kept, entry->shard, &entry->op.value);
        }
        return;
    }
    if (op->kind == OP_REMOVE) {
        reply_integer(conn, 0);
    } else if (op->status == KVASIR_OK) {
        reply_integer(conn, op->integer);
    } else {
        reply_failure(conn, request->command, op);
    }
}

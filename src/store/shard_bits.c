/* Bits of a value: integers of any width in it (SETBIT, GETBIT, BITFIELD), how many are set, where the
 * first one is. Bit 0 is the most significant of the first byte. */

#include "base/check.h"
#include "base/copy.h"
#include "store/shard_impl.h"
#include "store/shard_kinds.h"

/* An integer of 64 bits that does not begin at a byte's start. */
#define SHARD_BITS_FIELD_BYTES 9U

/* ---- integers ---- */

uint64_t shard_bits_end(const struct op *op)
{
    uint64_t end_bytes = 0;
    for (uint32_t i = 0; i < op->field_count; i++) {
        const struct op_field *field = &op->fields[i];
        uint64_t last_bit = field->offset_bits + field->bit_count - 1;
        if (field->kind != OP_FIELD_GET && last_bit / 8 + 1 > end_bytes) {
            end_bytes = last_bit / 8 + 1;
        }
    }
    return end_bytes;
}

static uint64_t shard_bits_mask(const struct op_field *field)
{
    return field->bit_count >= 64 ? UINT64_MAX : (UINT64_C(1) << field->bit_count) - 1;
}

/* The number that the lowest bits of raw stand for. */
static int64_t shard_bits_number(const struct op_field *field, uint64_t raw)
{
    uint64_t mask = shard_bits_mask(field);
    bool negative = field->is_signed && (raw >> (field->bit_count - 1) & 1U) != 0;
    return (int64_t)(negative ? raw | ~mask : raw & mask);
}

/* The value's bytes that the field lies in, with zeros behind its end; returns how many are its. */
static size_t shard_bits_load(const struct shard *shard, const struct value *value,
                              uint64_t offset_bytes, uint8_t bytes[SHARD_BITS_FIELD_BYTES])
{
    size_t have_bytes = 0;
    memset(bytes, 0, SHARD_BITS_FIELD_BYTES);
    if (value == NULL || value->length_bytes <= offset_bytes) {
        return 0;
    }
    struct layout_cursor cursor;
    shard_value_cursor(shard, value, &cursor);
    layout_cursor_skip(&cursor, offset_bytes);
    while (have_bytes < SHARD_BITS_FIELD_BYTES && cursor.left_bytes > 0) {
        struct iovec piece = layout_cursor_peek(&cursor);
        size_t part_bytes = SHARD_BITS_FIELD_BYTES - have_bytes;
        part_bytes = part_bytes < piece.iov_len ? part_bytes : piece.iov_len;
        memcpy(bytes + have_bytes, piece.iov_base, part_bytes);
        layout_cursor_skip(&cursor, part_bytes);
        have_bytes += part_bytes;
    }
    return have_bytes;
}

static void shard_bits_store(const struct shard *shard, const struct value *value,
                             uint64_t offset_bytes, const uint8_t *bytes, size_t length_bytes)
{
    struct layout_cursor cursor;
    shard_value_cursor(shard, value, &cursor);
    layout_cursor_skip(&cursor, offset_bytes);
    while (length_bytes > 0) {
        struct iovec piece = layout_cursor_peek(&cursor);
        size_t part_bytes = length_bytes < piece.iov_len ? length_bytes : piece.iov_len;
        memcpy(piece.iov_base, bytes, part_bytes);
        layout_cursor_skip(&cursor, part_bytes);
        bytes += part_bytes;
        length_bytes -= part_bytes;
    }
}

static uint64_t shard_bits_get(const uint8_t *bytes, const struct op_field *field)
{
    uint64_t raw = 0;
    unsigned first = (unsigned)(field->offset_bits % 8);
    for (unsigned i = first; i < first + field->bit_count; i++) {
        raw = raw << 1 | (bytes[i / 8] >> (7 - i % 8) & 1U);
    }
    return raw;
}

static void shard_bits_put(uint8_t *bytes, const struct op_field *field, uint64_t raw)
{
    unsigned first = (unsigned)(field->offset_bits % 8);
    for (unsigned i = 0; i < field->bit_count; i++) {
        unsigned at = first + field->bit_count - 1 - i;
        uint8_t bit = (uint8_t)(1U << (7 - at % 8));
        bytes[at / 8] =
            (uint8_t)((raw >> i & 1U) != 0 ? bytes[at / 8] | bit : bytes[at / 8] & ~bit);
    }
}

/* Where old + add stands to what the field can hold: -1 below, 1 above, 0 within. */
static int shard_bits_outside(const struct op_field *field, int64_t old, int64_t add)
{
    int64_t max = (int64_t)(shard_bits_mask(field) >> (field->is_signed ? 1 : 0));
    int64_t min = field->is_signed ? -max - 1 : 0;
    int64_t sum;
    if (!field->is_signed && field->kind == OP_FIELD_SET) {
        return (uint64_t)old > (uint64_t)max ? 1 : 0; /* a negative number counts as a big one */
    }
    if (__builtin_add_overflow(old, add, &sum)) {
        return add > 0 ? 1 : -1;
    }
    return sum > max ? 1 : sum < min ? -1 : 0;
}

/* The number to be written; false: it does not fit, and the field fails. */
static bool shard_bits_next(const struct op_field *field, int64_t old, int64_t *next_p)
{
    bool set = field->kind == OP_FIELD_SET;
    int64_t base = set ? field->number : old;
    int64_t add = set ? 0 : field->number;
    int outside = shard_bits_outside(field, base, add);
    int64_t max = (int64_t)(shard_bits_mask(field) >> (field->is_signed ? 1 : 0));
    if (outside != 0 && field->overflow == OP_OVERFLOW_FAIL) {
        return false;
    }
    if (outside != 0 && field->overflow == OP_OVERFLOW_SATURATE) {
        *next_p = outside > 0 ? max : field->is_signed ? -max - 1 : 0;
    } else {
        *next_p = shard_bits_number(field, (uint64_t)base + (uint64_t)add);
    }
    return true;
}

void shard_bits_apply(struct shard *shard, struct op *op, const struct value *value)
{
    for (uint32_t i = 0; i < op->field_count; i++) {
        struct op_field *field = &op->fields[i];
        uint8_t bytes[SHARD_BITS_FIELD_BYTES];
        size_t have_bytes = shard_bits_load(shard, value, field->offset_bits / 8, bytes);
        int64_t old = shard_bits_number(field, shard_bits_get(bytes, field));
        int64_t next = old;
        field->refused = false;
        if (field->kind != OP_FIELD_GET) {
            field->refused = !shard_bits_next(field, old, &next);
        }
        if (field->kind != OP_FIELD_GET && !field->refused) {
            shard_bits_put(bytes, field, (uint64_t)next);
            shard_bits_store(shard, value, field->offset_bits / 8, bytes, have_bytes);
        }
        field->number = field->kind == OP_FIELD_ADD ? next : old;
    }
}

void shard_bits_fields(struct shard *shard, struct op *op)
{
    if (shard_bits_end(op) > 0) {
        shard_build_edit(shard, op, shard_value_find(shard, op));
        return;
    }
    shard_bits_apply(shard, op, shard_read_find(shard, op));
    op->status = KVASIR_OK;
}

/* ---- counting and finding ---- */

/* First and last bit of the range in a value of this length; false: it is empty. */
static bool shard_bits_range(const struct op *op, uint64_t length_bytes, uint64_t *first_p,
                             uint64_t *last_p)
{
    const struct op_range *range = &op->range;
    int64_t total = (int64_t)(range->in_bits ? length_bytes * 8 : length_bytes);
    int64_t start = range->whole ? 0 : range->start;
    int64_t end = range->whole || range->open ? total - 1 : range->end;
    if (op->kind == OP_BIT_COUNT && start < 0 && end < 0 && start > end) {
        return false;
    }
    start = start < 0 ? start + total : start;
    end = end < 0 ? end + total : end;
    start = start < 0 ? 0 : start;
    end = end < 0 ? 0 : end;
    end = end >= total ? total - 1 : end;
    if (start > end) {
        return false;
    }
    *first_p = (uint64_t)(range->in_bits ? start : start * 8);
    *last_p = (uint64_t)(range->in_bits ? end : end * 8 + 7);
    return true;
}

static uint64_t shard_bits_count(const uint8_t *bytes, size_t length_bytes)
{
    uint64_t count = 0;
    for (; length_bytes >= sizeof(uint64_t); length_bytes -= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        count += (uint64_t)__builtin_popcountll(word);
        bytes += sizeof(word);
    }
    for (size_t i = 0; i < length_bytes; i++) {
        count += (uint64_t)__builtin_popcount(bytes[i]);
    }
    return count;
}

/* The index of the first byte that is not skipped; length_bytes: there is none. */
static size_t shard_bits_skip(const uint8_t *bytes, size_t length_bytes, uint8_t skipped)
{
    size_t i = 0;
    uint64_t pattern = skipped == 0 ? 0 : UINT64_MAX;
    uint64_t word = pattern;
    while (length_bytes - i >= sizeof(word)) {
        memcpy(&word, bytes + i, sizeof(word));
        if (word != pattern) {
            break;
        }
        i += sizeof(word);
    }
    while (i < length_bytes && bytes[i] == skipped) {
        i++;
    }
    return i;
}

/* Bits of the byte that the range covers. */
static uint8_t shard_bits_covered(uint64_t byte, uint64_t first, uint64_t last)
{
    unsigned covered = 0xff;
    if (byte == first / 8) {
        covered &= 0xffU >> (first % 8);
    }
    if (byte == last / 8) {
        covered &= 0xff00U >> (last % 8 + 1);
    }
    return (uint8_t)covered;
}

static uint8_t shard_bits_byte(const struct shard *shard, const struct value *value, uint64_t byte)
{
    uint8_t bytes[SHARD_BITS_FIELD_BYTES];
    (void)shard_bits_load(shard, value, byte, bytes);
    return bytes[0];
}

/* Looks at a step's bytes from done_bytes on. True: found (or counted to the end). */
static bool shard_bits_step(const struct shard *shard, struct op *op, uint64_t first, uint64_t last)
{
    uint64_t budget_bytes = SHARD_STEP_BYTES;
    uint8_t skipped = op->range.bit ? 0 : 0xff;
    struct layout_cursor cursor;
    shard_value_cursor(shard, op->old, &cursor);
    layout_cursor_skip(&cursor, op->done_bytes);
    while (budget_bytes > 0 && op->done_bytes <= last / 8) {
        struct iovec piece = layout_cursor_peek(&cursor);
        uint64_t left_bytes = last / 8 + 1 - op->done_bytes;
        size_t part_bytes = left_bytes < piece.iov_len ? left_bytes : piece.iov_len;
        part_bytes = budget_bytes < part_bytes ? budget_bytes : part_bytes;
        if (op->kind == OP_BIT_COUNT) {
            op->integer += (int64_t)shard_bits_count(piece.iov_base, part_bytes);
        } else {
            size_t at = shard_bits_skip(piece.iov_base, part_bytes, skipped);
            const uint8_t *bytes = piece.iov_base;
            uint64_t byte = op->done_bytes + at;
            unsigned found = at < part_bytes ? (uint8_t)(bytes[at] ^ skipped) : 0;
            found &= shard_bits_covered(byte, first, last);
            if (found != 0) {
                op->integer = (int64_t)(byte * 8 + (unsigned)__builtin_clz(found) - 24);
                return true;
            }
            part_bytes = at < part_bytes ? at + 1 : part_bytes;
        }
        layout_cursor_skip(&cursor, part_bytes);
        op->done_bytes += part_bytes;
        budget_bytes -= part_bytes;
    }
    return false;
}

/* Nothing was found, or all is counted. */
static void shard_bits_conclude(const struct shard *shard, struct op *op, uint64_t first,
                                uint64_t last)
{
    if (op->kind == OP_BIT_FIND) {
        bool beyond = !op->range.bit && (op->range.whole || op->range.open);
        op->integer = beyond ? (int64_t)last + 1 : -1; /* zeros follow a value that goes on */
        return;
    }
    uint64_t edges[] = {first / 8, last / 8};
    for (unsigned i = 0; i < ARRAY_COUNT(edges); i++) {
        uint8_t outside = (uint8_t)~shard_bits_covered(edges[i], first, last);
        uint8_t byte = shard_bits_byte(shard, op->old, edges[i]);
        if (i == 0 || edges[0] != edges[1]) {
            op->integer -= __builtin_popcount((unsigned)(byte & outside));
        }
    }
}

void shard_bits_look(struct shard *shard, struct op *op)
{
    bool resumed = op->old != NULL;
    uint64_t first = 0;
    uint64_t last = 0;
    if (!resumed) {
        struct value *value = shard_read_find(shard, op);
        op->integer = 0;
        if (value == NULL) {
            return;
        }
        op->old = shard_pin_take(value);
    }
    bool any = shard_bits_range(op, op->old->length_bytes, &first, &last);
    if (!any) {
        op->integer = op->kind == OP_BIT_COUNT ? 0 : -1;
    } else {
        op->done_bytes = resumed ? op->done_bytes : first / 8;
        bool found = shard_bits_step(shard, op, first, last);
        if (!found && op->done_bytes <= last / 8) {
            op->status = KVASIR_PENDING;
            return;
        }
        if (!found) {
            shard_bits_conclude(shard, op, first, last);
        }
    }
    shard_unpin(shard, &op->old);
    op->status = KVASIR_OK;
}

/* Edits. A sealed value never changes, so each builds the next value and puts it in the old one's place,
 * with its expiry, class and parent. */

#include "base/check.h"
#include "base/copy.h"
#include "base/number.h"
#include "store/shard_impl.h"
#include "store/shard_kinds.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The longest text that is read as a float, as in Redis (its buffer for a long double). */
#define SHARD_FLOAT_TEXT_BYTES_MAX 5119U

struct value *shard_edit_begin(struct shard *shard, struct op *op, struct value *old,
                               uint64_t length_bytes)
{
    if (old != NULL) {
        (void)shard_pin_take(old);
    }
    struct value *value;
    op->status = shard_value_take(shard, op, length_bytes, &value);
    if (op->status != KVASIR_OK) {
        if (old != NULL) {
            shard_unpin(shard, &old);
        }
        return NULL;
    }
    return value;
}

void shard_edit_end(struct shard *shard, struct value *old, struct value *value)
{
    if (old != NULL) {
        value->expires_at_ms = old->expires_at_ms;
        value->generation = (old->generation + 1U) & VALUE_GENERATION_MAX;
        value->value_class = old->value_class;
        value->parent_hash = old->parent_hash;
        value->flags = old->flags & VALUE_FLAG_PARENT;
        shard_value_unlink(shard, old, EVENT_NONE);
        shard_unpin(shard, &old);
    }
    shard_value_link(shard, value);
    shard_unpin(shard, &value);
}

static void shard_edit_replace(struct shard *shard, struct op *op, struct value *old,
                               struct slice text)
{
    struct value *value = shard_edit_begin(shard, op, old, text.length_bytes);
    if (value != NULL) {
        shard_value_write(shard, value, text);
        shard_edit_end(shard, old, value);
    }
}

/* The value's bytes as a terminated text in the scratch; false: it is too long. */
static bool shard_edit_text(struct shard *shard, const struct value *value, size_t length_bytes_max,
                            struct slice *text_p)
{
    if (value->length_bytes > length_bytes_max) {
        return false;
    }
    struct layout_cursor cursor;
    shard_value_cursor(shard, value, &cursor);
    size_t length_bytes = 0;
    while (length_bytes < value->length_bytes) {
        struct iovec piece = layout_cursor_peek(&cursor);
        copy_payload(shard->scratch + length_bytes, piece.iov_base, piece.iov_len);
        layout_cursor_skip(&cursor, piece.iov_len);
        length_bytes += piece.iov_len;
    }
    shard->scratch[length_bytes] = '\0';
    *text_p = slice_of(shard->scratch, length_bytes);
    return true;
}

bool shard_edit_is_integer(struct shard *shard, const struct value *value)
{
    struct slice text;
    int64_t number;
    return shard_edit_text(shard, value, NUMBER_TEXT_BYTES_MAX, &text) &&
           slice_to_i64(text, &number);
}

void shard_edit_add(struct shard *shard, struct op *op)
{
    struct value *old = shard_value_find(shard, op);
    struct slice text;
    int64_t number = 0;
    if (old != NULL && (!shard_edit_text(shard, old, NUMBER_TEXT_BYTES_MAX, &text) ||
                        !slice_to_i64(text, &number))) {
        op->status = KVASIR_INVALID;
        return;
    }
    if (__builtin_add_overflow(number, op->delta, &number)) {
        op->status = KVASIR_TOO_LARGE;
        return;
    }
    size_t length_bytes = number_from_i64(shard->scratch, number);
    shard_edit_replace(shard, op, old, slice_of(shard->scratch, length_bytes));
    if (op->status == KVASIR_OK) {
        op->integer = number;
    }
}

/* As Redis reads a float: the whole text, no blank in front, no NaN. */
static bool shard_edit_parse_float(struct slice text, long double *number_p)
{
    const char *start = (const char *)text.data;
    if (text.length_bytes == 0 || strchr(" \t\n\v\f\r", start[0]) != NULL) {
        return false;
    }
    char *end;
    errno = 0;
    long double number = strtold(start, &end);
    if (end != start + text.length_bytes || isnan(number) ||
        (errno == ERANGE && (isinf(number) || fpclassify(number) == FP_ZERO))) {
        return false;
    }
    *number_p = number;
    return true;
}

/* Seventeen digits behind the point, without the zeros at the end; never "-0". */
static struct slice shard_edit_format_float(char *text, size_t capacity, long double number)
{
    int printed = snprintf(text, capacity, "%.17Lf", number);
    check(printed > 0 && (size_t)printed < capacity);
    size_t length_bytes = (size_t)printed;
    while (text[length_bytes - 1] == '0') {
        length_bytes--;
    }
    if (text[length_bytes - 1] == '.') {
        length_bytes--;
    }
    if (length_bytes == 2 && text[0] == '-' && text[1] == '0') {
        return slice_of(text + 1, 1);
    }
    return slice_of(text, length_bytes);
}

void shard_edit_add_float(struct shard *shard, struct op *op)
{
    op->value = NULL;
    struct value *old = shard_value_find(shard, op);
    struct slice text;
    long double number = 0;
    if (old != NULL && (!shard_edit_text(shard, old, SHARD_FLOAT_TEXT_BYTES_MAX, &text) ||
                        !shard_edit_parse_float(text, &number))) {
        op->status = KVASIR_INVALID;
        return;
    }
    number += op->delta_float;
    if (isnan(number) || isinf(number)) {
        op->status = KVASIR_TOO_LARGE;
        return;
    }
    shard_edit_replace(shard, op, old,
                       shard_edit_format_float(shard->scratch, sizeof(shard->scratch), number));
    if (op->status == KVASIR_OK) {
        op->value = shard_pin_take(shard_value_find(shard, op));
    }
}

void shard_edit_append(struct shard *shard, struct op *op)
{
    shard_build_edit(shard, op, shard_value_find(shard, op));
}

void shard_edit_set_range(struct shard *shard, struct op *op)
{
    struct value *old = shard_value_find(shard, op);
    if (op->payload.length_bytes == 0) {
        op->integer = old != NULL ? (int64_t)old->length_bytes : 0;
        op->status = KVASIR_OK;
        return;
    }
    shard_build_edit(shard, op, old);
}

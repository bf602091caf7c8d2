/* Values that are built: the next value of an edit (old bytes, new bytes and zeros), and values made of
 * others. One execution copies SHARD_STEP_BYTES; the op says PENDING until all is there, and holds the
 * unfinished value meanwhile. */

#include "base/check.h"
#include "base/copy.h"
#include "store/shard_impl.h"
#include "store/shard_kinds.h"

/* So often an edit begins anew because the key got another value meanwhile; then it goes first. */
#define SHARD_BUILD_RESTARTS_MAX 3U
/* A step through many sources copies no less of each. */
#define SHARD_BUILD_PART_BYTES 4096U

static size_t shard_build_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- edits ---- */

/* What an edit leaves of the old value, and what it puts over it. */
struct shard_overlay {
    uint64_t offset_bytes;
    struct slice payload;
    uint64_t length_bytes; /* of the next value */
};

/* The next value's length may be more than is allowed (UINT64_MAX: more than can be counted). */
static struct shard_overlay shard_build_overlay(const struct op *op, const struct value *old)
{
    uint64_t old_bytes = old != NULL ? old->length_bytes : 0;
    bool fields = op->kind == OP_FIELDS;
    struct slice payload = fields ? slice_of(NULL, 0) : op->payload;
    uint64_t offset_bytes = old_bytes;
    if (op->kind == OP_SET_RANGE) {
        offset_bytes = op->offset_bytes;
    } else if (fields) {
        offset_bytes = shard_bits_end(op);
    }
    uint64_t end_bytes = offset_bytes + payload.length_bytes;
    if (end_bytes < offset_bytes) {
        end_bytes = UINT64_MAX;
    }
    return (struct shard_overlay){
        .offset_bytes = offset_bytes,
        .payload = payload,
        .length_bytes = old_bytes > end_bytes ? old_bytes : end_bytes,
    };
}

static void shard_build_copy(struct layout_cursor *to, struct layout_cursor *from,
                             size_t length_bytes)
{
    while (length_bytes > 0) {
        struct iovec target = layout_cursor_peek(to);
        struct iovec source = layout_cursor_peek(from);
        size_t step_bytes =
            shard_build_min(length_bytes, shard_build_min(target.iov_len, source.iov_len));
        check(step_bytes > 0);
        copy_payload(target.iov_base, source.iov_base, step_bytes);
        layout_cursor_skip(to, step_bytes);
        layout_cursor_skip(from, step_bytes);
        length_bytes -= step_bytes;
    }
}

static void shard_build_copy_slice(struct layout_cursor *to, struct slice from)
{
    while (from.length_bytes > 0) {
        struct iovec target = layout_cursor_peek(to);
        size_t step_bytes = shard_build_min(from.length_bytes, target.iov_len);
        check(step_bytes > 0);
        copy_payload(target.iov_base, from.data, step_bytes);
        layout_cursor_skip(to, step_bytes);
        from = slice_of(from.data + step_bytes, from.length_bytes - step_bytes);
    }
}

static void shard_build_zero(struct layout_cursor *to, size_t length_bytes)
{
    while (length_bytes > 0) {
        struct iovec target = layout_cursor_peek(to);
        size_t step_bytes = shard_build_min(length_bytes, target.iov_len);
        check(step_bytes > 0);
        memset(target.iov_base, 0, step_bytes);
        layout_cursor_skip(to, step_bytes);
        length_bytes -= step_bytes;
    }
}

/* The next bytes of one kind, at most budget_bytes of them; returns how many that were. */
static size_t shard_build_piece(struct op *op, const struct shard_overlay *overlay,
                                struct layout_cursor *to, struct layout_cursor *from,
                                size_t budget_bytes)
{
    uint64_t at = op->done_bytes;
    uint64_t offset = overlay->offset_bytes;
    uint64_t old_bytes = op->old != NULL ? op->old->length_bytes : 0;
    uint64_t end = offset + overlay->payload.length_bytes;
    uint64_t old_left = at < old_bytes ? old_bytes - at : 0;
    size_t step_bytes;
    if (at >= offset && at < end) {
        step_bytes = shard_build_min(budget_bytes, end - at);
        shard_build_copy_slice(to, slice_of(overlay->payload.data + (at - offset), step_bytes));
        layout_cursor_skip(from, shard_build_min(step_bytes, old_left));
        return step_bytes;
    }
    step_bytes = at < offset ? offset - at : overlay->length_bytes - at;
    step_bytes = shard_build_min(budget_bytes, step_bytes);
    if (old_left > 0) {
        step_bytes = shard_build_min(step_bytes, old_left);
        shard_build_copy(to, from, step_bytes);
    } else {
        shard_build_zero(to, step_bytes);
    }
    return step_bytes;
}

static void shard_build_fill(struct shard *shard, struct op *op,
                             const struct shard_overlay *overlay, size_t budget_bytes)
{
    struct layout_cursor to;
    struct layout_cursor from = {0};
    shard_value_cursor(shard, op->value, &to);
    layout_cursor_skip(&to, op->done_bytes);
    if (op->old != NULL) {
        shard_value_cursor(shard, op->old, &from);
        layout_cursor_skip(&from, shard_build_min(op->done_bytes, op->old->length_bytes));
    }
    while (budget_bytes > 0 && op->done_bytes < overlay->length_bytes) {
        size_t step_bytes = shard_build_piece(op, overlay, &to, &from, budget_bytes);
        op->done_bytes += step_bytes;
        budget_bytes -= step_bytes;
    }
}

/* The key has another value than the one that was built on. */
static void shard_build_restart(struct shard *shard, struct op *op)
{
    shard_unpin(shard, &op->value);
    if (op->old != NULL) {
        shard_unpin(shard, &op->old);
    }
    op->restarts++;
    if (shard->first_edit == op) {
        shard->first_edit = NULL;
    }
}

/* False: there is no room yet, or never; op->status says so. */
static bool shard_build_begin(struct shard *shard, struct op *op, struct value *old,
                              const struct shard_overlay *overlay)
{
    /* An old value may be longer than what may be written now. */
    uint64_t end_bytes = overlay->offset_bytes + overlay->payload.length_bytes;
    if (overlay->length_bytes == UINT64_MAX || end_bytes > shard->config.append_bytes_max) {
        op->status = KVASIR_TOO_LARGE;
        return false;
    }
    op->value = shard_edit_begin(shard, op, old, overlay->length_bytes);
    if (op->value == NULL) {
        return false;
    }
    op->old = old;
    op->done_bytes = 0;
    return true;
}

void shard_build_edit(struct shard *shard, struct op *op, struct value *old)
{
    if (op->value != NULL && old != op->old) {
        shard_build_restart(shard, op);
    }
    struct shard_overlay overlay = shard_build_overlay(op, old);
    if (op->value == NULL && !shard_build_begin(shard, op, old, &overlay)) {
        return;
    }
    if (op->restarts >= SHARD_BUILD_RESTARTS_MAX && shard->first_edit == NULL) {
        shard->first_edit = op;
    }
    shard_build_fill(shard, op, &overlay, SHARD_STEP_BYTES);
    if (op->done_bytes < overlay.length_bytes) {
        op->status = KVASIR_PENDING;
        return;
    }
    if (op->kind == OP_FIELDS) {
        shard_bits_apply(shard, op, op->value);
    }
    struct value *value = op->value;
    op->value = NULL;
    op->old = NULL;
    shard_edit_end(shard, old, value);
    op->integer = (int64_t)overlay.length_bytes;
    op->status = KVASIR_OK;
    if (shard->first_edit == op) {
        shard->first_edit = NULL;
    }
}

/* ---- values made of others ---- */

static uint64_t shard_build_word(enum op_combine combine, uint64_t target, uint64_t source)
{
    switch (combine) {
    case OP_COMBINE_COPY:
        return source;
    case OP_COMBINE_NOT:
        return ~source;
    case OP_COMBINE_AND:
        return target & source;
    case OP_COMBINE_OR:
        return target | source;
    case OP_COMBINE_XOR:
        return target ^ source;
    }
    unreachable();
}

static void shard_build_combine_words(enum op_combine combine, uint8_t *to, const uint8_t *from,
                                      size_t length_bytes)
{
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= length_bytes; i += sizeof(uint64_t)) {
        uint64_t target;
        uint64_t source;
        memcpy(&target, to + i, sizeof(target));
        memcpy(&source, from + i, sizeof(source));
        target = shard_build_word(combine, target, source);
        memcpy(to + i, &target, sizeof(target));
    }
    for (; i < length_bytes; i++) {
        to[i] = (uint8_t)shard_build_word(combine, to[i], from[i]);
    }
}

/* One source's share in the bytes from done_bytes on. */
static void shard_build_combine(const struct shard *shard, struct op *op, uint32_t index,
                                size_t length_bytes)
{
    enum op_combine combine = (enum op_combine)op->combine;
    const struct value *source = op->sources[index];
    uint64_t left_bytes = source != NULL && source->length_bytes > op->done_bytes
                              ? source->length_bytes - op->done_bytes
                              : 0;
    size_t source_bytes = shard_build_min(length_bytes, left_bytes);
    struct layout_cursor to;
    struct layout_cursor from;
    shard_value_cursor(shard, op->value, &to);
    layout_cursor_skip(&to, op->done_bytes);
    if (source_bytes > 0) {
        shard_value_cursor(shard, source, &from);
        layout_cursor_skip(&from, op->done_bytes);
    }
    if (index == 0 && combine != OP_COMBINE_NOT) {
        shard_build_copy(&to, &from, source_bytes);
        shard_build_zero(&to, length_bytes - source_bytes);
        return;
    }
    for (size_t i = 0; i < source_bytes;) {
        struct iovec target = layout_cursor_peek(&to);
        struct iovec piece = layout_cursor_peek(&from);
        size_t step_bytes =
            shard_build_min(source_bytes - i, shard_build_min(target.iov_len, piece.iov_len));
        shard_build_combine_words(combine, target.iov_base, piece.iov_base, step_bytes);
        layout_cursor_skip(&to, step_bytes);
        layout_cursor_skip(&from, step_bytes);
        i += step_bytes;
    }
    if (combine == OP_COMBINE_AND) {
        shard_build_zero(&to, length_bytes - source_bytes);
    }
}

static uint64_t shard_build_longest(const struct op *op)
{
    uint64_t length_bytes = 0;
    for (uint32_t i = 0; i < op->source_count; i++) {
        const struct value *source = op->sources[i];
        if (source != NULL && source->length_bytes > length_bytes) {
            length_bytes = source->length_bytes;
        }
    }
    return length_bytes;
}

void shard_build_set_from(struct shard *shard, struct op *op)
{
    check(op->source_count > 0);
    if (op->value == NULL) {
        if (!shard_put_allowed(op, shard_value_find(shard, op))) {
            return;
        }
        op->status = shard_value_take(shard, op, shard_build_longest(op), &op->value);
        if (op->status != KVASIR_OK) {
            return;
        }
        op->done_bytes = 0;
    }
    uint64_t length_bytes = op->value->length_bytes;
    size_t step_bytes = SHARD_STEP_BYTES / op->source_count;
    step_bytes = step_bytes < SHARD_BUILD_PART_BYTES ? SHARD_BUILD_PART_BYTES : step_bytes;
    step_bytes = shard_build_min(step_bytes, length_bytes - op->done_bytes);
    for (uint32_t i = 0; i < op->source_count && step_bytes > 0; i++) {
        shard_build_combine(shard, op, i, step_bytes);
    }
    op->done_bytes += step_bytes;
    if (op->done_bytes < length_bytes) {
        op->status = KVASIR_PENDING;
        return;
    }
    op->integer = (int64_t)length_bytes;
    shard_put_commit(shard, op);
}

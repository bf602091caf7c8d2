#include "proto/reply_reader.h"

#include "base/check.h"

/* A line is a header, a status or an error; what Redis allows a request's line is plenty. */
#define LINE_BYTES_MAX (64U << 10)
/* "txt:" in front of a verbatim string's text. */
#define VERBATIM_PREFIX_BYTES 4U

/* What the line at the front of the data says. */
struct line {
    uint8_t type;
    struct slice text;   /* between the type byte and CRLF */
    size_t length_bytes; /* with both */
    const uint8_t *rest; /* what follows in the data */
    size_t rest_bytes;
};

void reply_reader_init(struct reply_reader *reader)
{
    *reader = (struct reply_reader){.depth = 0};
}

ATTR_COLD static enum reply_result fail(struct reply_reader *reader, const char *error)
{
    reader->error = error;
    return REPLY_BROKEN;
}

/* A value is complete: so are all aggregates that it is the last element of. True when nothing is
 * open any more. */
static bool complete(struct reply_reader *reader)
{
    while (reader->depth > 0) {
        uint64_t *left = &reader->left[reader->depth - 1];
        *left -= 1;
        if (*left > 0) {
            return false;
        }
        reader->depth--;
    }
    return true;
}

static enum reply_result read_line(struct reply_reader *reader, const uint8_t *data,
                                   size_t length_bytes, struct line *line_p)
{
    size_t seen = reader->scanned_bytes;
    if (seen == length_bytes) {
        return REPLY_MORE;
    }
    size_t end = length_bytes < LINE_BYTES_MAX ? length_bytes : LINE_BYTES_MAX;
    const uint8_t *cr = memchr(data + seen, '\r', end - seen);
    if (cr == NULL) {
        if (length_bytes >= LINE_BYTES_MAX) {
            return fail(reader, "line too long");
        }
        reader->scanned_bytes = length_bytes;
        return REPLY_MORE;
    }
    size_t at = (size_t)(cr - data);
    reader->scanned_bytes = at;
    if (at + 1 >= length_bytes) {
        return REPLY_MORE;
    }
    if (at == 0 || cr[1] != '\n') {
        return fail(reader, "line without its end");
    }
    *line_p = (struct line){
        .type = data[0],
        .text = slice_of(data + 1, at - 1),
        .length_bytes = at + 2,
        .rest = data + at + 2,
        .rest_bytes = length_bytes - at - 2,
    };
    return REPLY_TOKEN;
}

/* A token that is a value by itself. */
static enum reply_result give_value(struct reply_reader *reader, struct reply_token token,
                                    struct reply_token *token_p)
{
    token.depth = reader->depth;
    token.ends_reply = complete(reader);
    *token_p = token;
    return REPLY_TOKEN;
}

static enum reply_result give_aggregate(struct reply_reader *reader, enum reply_token_kind kind,
                                        const struct line *line, struct reply_token *token_p)
{
    struct reply_token token = {.kind = kind, .depth = reader->depth};
    int64_t count = 0;
    if (kind == REPLY_ARRAY && slice_equal(line->text, slice_of("-1", 2))) {
        token.kind = REPLY_NULL;
        return give_value(reader, token, token_p);
    }
    if (!slice_to_i64(line->text, &count) || count < 0 || count > (int64_t)UINT32_MAX) {
        return fail(reader, "invalid count of elements");
    }
    token.count = (uint64_t)count;
    if (kind == REPLY_PUSH && reader->depth > 0) {
        return fail(reader, "push inside a reply");
    }
    if (count == 0) {
        return give_value(reader, token, token_p);
    }
    if (reader->depth == REPLY_DEPTH_MAX) {
        return fail(reader, "nested too deep");
    }
    reader->left[reader->depth] = kind == REPLY_MAP ? 2 * token.count : token.count;
    reader->depth++;
    *token_p = token;
    return REPLY_TOKEN;
}

/* A string with its length in front: '$', '=' or '!'. Sets *extra_p to the payload's bytes in the
 * data, with CRLF. */
static enum reply_result give_string(struct reply_reader *reader, const struct line *line,
                                     struct reply_token *token_p, size_t *extra_p)
{
    struct reply_token token = {.kind = REPLY_BULK, .depth = reader->depth};
    int64_t length = 0;
    if (line->type == '$' && slice_equal(line->text, slice_of("-1", 2))) {
        token.kind = REPLY_NULL;
        return give_value(reader, token, token_p);
    }
    if (!slice_to_i64(line->text, &length) || length < 0) {
        return fail(reader, "invalid bulk length");
    }
    if (line->type == '$' && length >= (int64_t)REPLY_BULK_BYTES_MIN) {
        token.kind = REPLY_BULK_HEADER;
        token.count = (uint64_t)length;
        reader->bulk_open = true;
        *token_p = token;
        return REPLY_TOKEN;
    }
    if (length > (int64_t)REPLY_TEXT_BYTES_MAX) {
        return fail(reader, "text too long");
    }
    size_t bytes = (size_t)length;
    if (line->rest_bytes < bytes + 2) {
        return REPLY_MORE;
    }
    if (line->rest[bytes] != '\r' || line->rest[bytes + 1] != '\n') {
        return fail(reader, "bulk without its end");
    }
    token.text = slice_of(line->rest, bytes);
    if (line->type == '!') {
        token.kind = REPLY_ERROR;
    } else if (line->type == '=') {
        if (bytes < VERBATIM_PREFIX_BYTES || line->rest[VERBATIM_PREFIX_BYTES - 1] != ':') {
            return fail(reader, "verbatim string without its format");
        }
        token.text = slice_of(line->rest + VERBATIM_PREFIX_BYTES, bytes - VERBATIM_PREFIX_BYTES);
    }
    *extra_p = bytes + 2;
    return give_value(reader, token, token_p);
}

/* A value that is one line. */
static enum reply_result give_scalar(struct reply_reader *reader, const struct line *line,
                                     struct reply_token *token_p)
{
    struct reply_token token = {.text = line->text};
    switch (line->type) {
    case '+':
        token.kind = REPLY_SIMPLE;
        break;
    case '-':
        token.kind = REPLY_ERROR;
        break;
    case '(':
        token.kind = REPLY_BULK;
        break;
    case ',':
        token.kind = REPLY_DOUBLE;
        break;
    case ':':
        token.kind = REPLY_INTEGER;
        if (!slice_to_i64(line->text, &token.number)) {
            return fail(reader, "invalid integer");
        }
        break;
    case '#':
        token.kind = REPLY_BOOL;
        if (line->text.length_bytes != 1 ||
            (line->text.data[0] != 't' && line->text.data[0] != 'f')) {
            return fail(reader, "invalid boolean");
        }
        token.number = line->text.data[0] == 't' ? 1 : 0;
        break;
    case '_':
        token.kind = REPLY_NULL;
        if (line->text.length_bytes != 0) {
            return fail(reader, "invalid null");
        }
        break;
    default:
        return fail(reader, "unknown type of reply");
    }
    return give_value(reader, token, token_p);
}

static enum reply_result give_token(struct reply_reader *reader, const struct line *line,
                                    struct reply_token *token_p, size_t *extra_p)
{
    switch (line->type) {
    case '$':
    case '=':
    case '!':
        return give_string(reader, line, token_p, extra_p);
    case '*':
        return give_aggregate(reader, REPLY_ARRAY, line, token_p);
    case '%':
        return give_aggregate(reader, REPLY_MAP, line, token_p);
    case '~':
        return give_aggregate(reader, REPLY_SET, line, token_p);
    case '>':
        return give_aggregate(reader, REPLY_PUSH, line, token_p);
    default:
        return give_scalar(reader, line, token_p);
    }
}

enum reply_result reply_reader_advance(struct reply_reader *reader, const uint8_t *data,
                                       size_t length_bytes, struct reply_token *token_p,
                                       size_t *consumed_p)
{
    check(!reader->bulk_open);
    check(reader->scanned_bytes <= length_bytes);
    if (reader->error != NULL) {
        return REPLY_BROKEN;
    }
    struct line line;
    enum reply_result result = read_line(reader, data, length_bytes, &line);
    if (result != REPLY_TOKEN) {
        return result;
    }
    size_t extra_bytes = 0;
    result = give_token(reader, &line, token_p, &extra_bytes);
    if (result == REPLY_TOKEN) {
        *consumed_p = line.length_bytes + extra_bytes;
        reader->scanned_bytes = 0;
    }
    return result;
}

bool reply_reader_bulk_done(struct reply_reader *reader)
{
    check(reader->bulk_open);
    reader->bulk_open = false;
    return complete(reader);
}

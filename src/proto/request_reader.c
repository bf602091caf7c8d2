#include "proto/request_reader.h"

#include "base/check.h"

#include <stdio.h>

/* Room for a header with its CRLF: the type byte, 20 digits and some. */
#define HEADER_BYTES_ROOM 32U
/* The first byte of a TLS connection; no inline request begins so. */
#define TLS_HANDSHAKE 0x16
/* Headers of so many digits are read the quick way, when that many bytes are there. */
#define QUICK_DIGITS_MAX 8
#define QUICK_BYTES_MIN  (QUICK_DIGITS_MAX + 3)

enum reader_state {
    STATE_START,   /* waits for the first byte of a request → INLINE or COUNT */
    STATE_INLINE,  /* waits for LF → START */
    STATE_COUNT,   /* waits for the line of '*' → LENGTH, or START when it counts no argument */
    STATE_LENGTH,  /* waits for the line of '$' → PAYLOAD or OFFERED */
    STATE_PAYLOAD, /* waits for bulk_bytes and CRLF → LENGTH or START */
    STATE_OFFERED, /* waits for the caller to accept the bulk → PAYLOAD, or to take it → TAKEN */
    STATE_TAKEN,   /* waits for the CRLF after a payload that is not in the buffer → as PAYLOAD */
    STATE_BROKEN,  /* an error was returned; waits for nothing */
};

/* What a step answers beyond enum reader_result. */
enum step {
    STEP_MORE = READER_MORE,
    STEP_REQUEST = READER_REQUEST,
    STEP_BULK = READER_BULK,
    STEP_ARGS_FULL = READER_ARGS_FULL,
    STEP_ERROR = READER_ERROR,
    STEP_ON,    /* the state has moved on: look again */
    STEP_EMPTY, /* an empty request ended at offset: skip it */
};

/* The arguments of one call, together. */
struct view {
    uint8_t *data;
    size_t length_bytes;
    const struct reader_limits *limits;
    struct slice *args;
    uint32_t args_capacity;
};

void request_reader_init(struct request_reader *reader)
{
    *reader = (struct request_reader){.state = STATE_START};
}

bool request_reader_idle(const struct request_reader *reader)
{
    return reader->state == STATE_START;
}

ATTR_COLD static enum step fail(struct request_reader *reader, const char *error)
{
    reader->state = STATE_BROKEN;
    reader->error = error;
    return STEP_ERROR;
}

ATTR_COLD static enum step fail_type(struct request_reader *reader, uint8_t byte)
{
    char quoted[8];
    if (byte >= ' ' && byte <= '~') {
        (void)snprintf(quoted, sizeof(quoted), "%c", byte);
    } else {
        (void)snprintf(quoted, sizeof(quoted), "\\x%02x", byte);
    }
    (void)snprintf(reader->error_text, sizeof(reader->error_text),
                   "Protocol error: expected '$', got '%s'", quoted);
    return fail(reader, reader->error_text);
}

/* Finished arguments are kept as pointers; when the buffer has moved they move with it. The cost is
 * in proportion to what the caller spent on moving the same bytes. */
static void rebase_args(struct request_reader *reader, const struct view *view)
{
    if (LIKELY(reader->base == (uintptr_t)view->data)) {
        return;
    }
    for (uint32_t i = 0; i < reader->arg_count; i++) {
        if (view->args[i].data != NULL) {
            view->args[i].data = view->data + ((uintptr_t)view->args[i].data - reader->base);
        }
    }
    reader->base = (uintptr_t)view->data;
}

/* Nearly every header is whole and short. Reads one of up to 8 digits without a leading zero; the
 * bytes it takes with its CRLF, or 0 when it must be read the long way. */
static inline size_t read_quick(const uint8_t *line, size_t length, uint32_t *number_p)
{
    if (UNLIKELY(length < QUICK_BYTES_MIN || line[1] == '0')) {
        return 0;
    }
    uint32_t number = 0;
    size_t i = 1;
    for (; i <= QUICK_DIGITS_MAX && (uint8_t)(line[i] - '0') < 10; i++) {
        number = number * 10 + (uint32_t)(line[i] - '0');
    }
    if (UNLIKELY(i == 1 || line[i] != '\r')) {
        return 0;
    }
    *number_p = number;
    return i + 2;
}

/* Reads the number of a header line at token, behind its type byte. STEP_ON: *number_p is set,
 * offset is behind the line. STEP_MORE: the line is not whole. STEP_ERROR: it is longer than the
 * limit; the other errors of a header are its caller's, told by *valid_p. */
static enum step read_header(struct request_reader *reader, const struct view *view,
                             const char *too_big, int64_t *number_p, bool *valid_p)
{
    const uint8_t *line = view->data + reader->token;
    size_t length = view->length_bytes - reader->token;
    uint32_t quick = 0;
    size_t quick_bytes = read_quick(line, length, &quick);
    if (LIKELY(quick_bytes > 0)) {
        reader->offset = reader->token + quick_bytes;
        *number_p = quick;
        *valid_p = true;
        return STEP_ON;
    }
    size_t seen = reader->offset - reader->token;
    size_t bound = (size_t)view->limits->inline_bytes_max + 1;
    size_t end = length < bound ? length : bound;
    const uint8_t *cr = end > seen ? memchr(line + seen, '\r', end - seen) : NULL;
    if (cr == NULL) {
        if (length >= bound) {
            return fail(reader, too_big);
        }
        reader->offset = view->length_bytes;
        return STEP_MORE;
    }
    if ((size_t)(cr - line) + 1 >= length) {
        /* The CR is the last byte: find it again when its LF is there. */
        reader->offset = reader->token + (size_t)(cr - line);
        return STEP_MORE;
    }
    /* A line may be empty where an argument's header should stand: it has not even a type byte. */
    *valid_p = cr > line && slice_to_i64(slice_of(line + 1, (size_t)(cr - line) - 1), number_p);
    reader->offset = reader->token + (size_t)(cr - line) + 2;
    return STEP_ON;
}

static enum step read_count(struct request_reader *reader, const struct view *view)
{
    int64_t count = 0;
    bool valid = false;
    enum step step =
        read_header(reader, view, "Protocol error: too big mbulk count string", &count, &valid);
    if (step != STEP_ON) {
        return step;
    }
    if (!valid) {
        return fail(reader, "Protocol error: invalid multibulk length");
    }
    if (count > (int64_t)view->limits->args_max) {
        return fail(reader, view->limits->unauthenticated
                                ? "Protocol error: unauthenticated multibulk length"
                                : "Protocol error: invalid multibulk length");
    }
    if (count <= 0) {
        return STEP_EMPTY;
    }
    reader->args_left = (uint32_t)count;
    reader->token = reader->offset;
    reader->state = STATE_LENGTH;
    return STEP_ON;
}

static enum step read_length(struct request_reader *reader, const struct view *view)
{
    int64_t length = 0;
    bool valid = false;
    enum step step =
        read_header(reader, view, "Protocol error: too big bulk count string", &length, &valid);
    if (step != STEP_ON) {
        return step;
    }
    uint8_t type = view->data[reader->token];
    if (UNLIKELY(type != '$')) {
        return fail_type(reader, type);
    }
    if (UNLIKELY(!valid || length < 0)) {
        return fail(reader, "Protocol error: invalid bulk length");
    }
    if (UNLIKELY((uint64_t)length > view->limits->bulk_bytes_max)) {
        return fail(reader, view->limits->unauthenticated
                                ? "Protocol error: unauthenticated bulk length"
                                : "Protocol error: invalid bulk length");
    }
    reader->bulk_bytes = (uint64_t)length;
    reader->token = reader->offset;
    if (reader->bulk_bytes >= READER_BULK_BYTES_MIN) {
        reader->bulk_index = reader->arg_count;
        reader->state = STATE_OFFERED;
        return STEP_BULK;
    }
    reader->state = STATE_PAYLOAD;
    return STEP_ON;
}

/* More arguments are declared than args has room for: asks for twice the room. */
static enum step want_args(struct request_reader *reader, const struct view *view)
{
    uint64_t declared = (uint64_t)reader->arg_count + reader->args_left;
    uint64_t doubled = 2 * (uint64_t)view->args_capacity;
    reader->args_wanted = (uint32_t)(declared < doubled ? declared : doubled);
    return STEP_ARGS_FULL;
}

/* Takes the arguments that are short and whole, which are nearly all, with everything in registers.
 * Stops in STATE_LENGTH at the first that needs a closer look, or at the end of the array. */
static void read_whole_arguments(struct request_reader *reader, const struct view *view)
{
    const uint8_t *data = view->data;
    size_t token = reader->token;
    uint32_t count = reader->arg_count;
    uint32_t left = reader->args_left;
    size_t bulk_max = READER_BULK_BYTES_MIN - 1;
    if (view->limits->bulk_bytes_max < bulk_max) {
        bulk_max = view->limits->bulk_bytes_max;
    }
    while (left > 0 && count < view->args_capacity) {
        size_t available = view->length_bytes - token;
        uint32_t length = 0;
        size_t header = read_quick(data + token, available, &length);
        if (header == 0 || data[token] != '$' || length > bulk_max ||
            available - header < (size_t)length + 2) {
            break;
        }
        view->args[count++] = slice_of(data + token + header, length);
        token += header + length + 2;
        left--;
    }
    reader->token = token;
    reader->offset = token > reader->offset ? token : reader->offset;
    reader->arg_count = count;
    reader->args_left = left;
}

/* A whole request of short arguments, which nearly all are, at offset start. False: it needs a closer
 * look from its beginning. */
static bool read_whole_request(struct request_reader *reader, const struct view *view, size_t start)
{
    uint32_t count = 0;
    size_t header = read_quick(view->data + start, view->length_bytes - start, &count);
    if (header == 0 || view->data[start] != '*' || count == 0 || count > view->args_capacity ||
        count > view->limits->args_max) {
        return false;
    }
    reader->arg_count = 0;
    reader->args_left = count;
    reader->token = start + header;
    reader->offset = reader->token;
    read_whole_arguments(reader, view);
    return reader->args_left == 0;
}

/* The arguments of an array, one after the other, as far as the bytes reach. */
static enum step read_arguments(struct request_reader *reader, const struct view *view)
{
    for (;;) {
        if (reader->state == STATE_LENGTH) {
            read_whole_arguments(reader, view);
            if (LIKELY(reader->args_left == 0)) {
                reader->state = STATE_START;
                return STEP_REQUEST;
            }
            if (UNLIKELY(reader->arg_count >= view->args_capacity)) {
                return want_args(reader, view);
            }
            enum step step = read_length(reader, view);
            if (step != STEP_ON) {
                return step;
            }
        }
        bool taken = reader->state == STATE_TAKEN;
        uint64_t in_buffer = taken ? 0 : reader->bulk_bytes;
        if (view->length_bytes - reader->token < in_buffer + 2) {
            return STEP_MORE;
        }
        check(reader->arg_count < view->args_capacity);
        view->args[reader->arg_count] =
            slice_of(taken ? NULL : view->data + reader->token, reader->bulk_bytes);
        reader->arg_count++;
        reader->token += in_buffer + 2;
        reader->offset = reader->token;
        if (--reader->args_left == 0) {
            reader->state = STATE_START;
            return STEP_REQUEST;
        }
        reader->state = STATE_LENGTH;
    }
}

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

static int hex_digit(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    uint8_t lower = byte | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* One escape of a double-quoted string, whose backslash is at *at_p and is not the line's last
 * byte. Moves *at_p behind it. */
static uint8_t unescape(const uint8_t *line, size_t length, size_t *at_p)
{
    size_t at = *at_p + 1;
    if (line[at] == 'x' && length - at > 2 && hex_digit(line[at + 1]) >= 0 &&
        hex_digit(line[at + 2]) >= 0) {
        *at_p = at + 3;
        return (uint8_t)(hex_digit(line[at + 1]) * 16 + hex_digit(line[at + 2]));
    }
    *at_p = at + 1;
    switch (line[at]) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return line[at];
    }
}

/* The quoted part whose opening quote is at *at_p. Unquotes it to line + *to_p unless dry. False:
 * the quote is not closed, or what follows the closing one is no blank. */
static bool read_quoted(uint8_t *line, size_t length, size_t *at_p, size_t *to_p, bool dry)
{
    uint8_t quote = line[*at_p];
    size_t at = *at_p + 1;
    size_t to = *to_p;
    while (at < length && line[at] != quote) {
        uint8_t byte = line[at];
        if (byte == '\\' && quote == '"' && length - at > 1) {
            byte = unescape(line, length, &at);
        } else if (byte == '\\' && quote == '\'' && length - at > 1 && line[at + 1] == '\'') {
            byte = '\'';
            at += 2;
        } else {
            at++;
        }
        if (!dry) {
            line[to] = byte;
        }
        to++;
    }
    if (at >= length) {
        return false;
    }
    *at_p = at + 1;
    *to_p = to;
    return *at_p == length || is_blank(line[*at_p]);
}

/* Splits a line into arguments by the rules of redis-cli. With args NULL it only counts them and
 * leaves the line alone; else args has room for as many as were counted, and quoted ones are
 * unquoted in place (they only get shorter). False: unbalanced quotes. */
static bool split_line(uint8_t *line, size_t length, struct slice *args, uint32_t *count_p)
{
    uint32_t count = 0;
    size_t at = 0;
    for (;;) {
        while (at < length && is_blank(line[at])) {
            at++;
        }
        if (at == length) {
            *count_p = count;
            return true;
        }
        size_t from = at;
        size_t to = at;
        /* Vertical tab and form feed separate arguments only at their front, as in Redis. */
        while (at < length && line[at] != ' ' && line[at] != '\t' && line[at] != '\n' &&
               line[at] != '\r') {
            if (line[at] == '"' || line[at] == '\'') {
                if (!read_quoted(line, length, &at, &to, args == NULL)) {
                    return false;
                }
                break;
            }
            if (args != NULL) {
                line[to] = line[at];
            }
            to++;
            at++;
        }
        if (args != NULL) {
            args[count] = slice_of(line + from, to - from);
        }
        count++;
    }
}

static enum step read_inline(struct request_reader *reader, const struct view *view)
{
    uint8_t *line = view->data + reader->token;
    size_t length = view->length_bytes - reader->token;
    size_t seen = reader->offset - reader->token;
    size_t bound = (size_t)view->limits->inline_bytes_max + 1;
    size_t end = length < bound ? length : bound;
    const uint8_t *lf = end > seen ? memchr(line + seen, '\n', end - seen) : NULL;
    if (line[0] == TLS_HANDSHAKE) {
        return fail(reader, "Protocol error: this is TLS, which this port does not speak");
    }
    if (lf == NULL) {
        if (length >= bound) {
            return fail(reader, "Protocol error: too big inline request");
        }
        reader->offset = view->length_bytes;
        return STEP_MORE;
    }
    size_t line_bytes = (size_t)(lf - line);
    reader->offset = reader->token + line_bytes;
    size_t text_bytes =
        line_bytes > 0 && line[line_bytes - 1] == '\r' ? line_bytes - 1 : line_bytes;
    uint32_t count = 0;
    if (!split_line(line, text_bytes, NULL, &count)) {
        return fail(reader, "Protocol error: unbalanced quotes in request");
    }
    if (count > view->args_capacity) {
        reader->args_wanted = count;
        return STEP_ARGS_FULL;
    }
    reader->offset++;
    if (count == 0) {
        return STEP_EMPTY;
    }
    (void)split_line(line, text_bytes, view->args, &reader->arg_count);
    reader->state = STATE_START;
    return STEP_REQUEST;
}

/* Begins a request at offset start, where there is at least one byte. */
static void begin(struct request_reader *reader, const struct view *view, size_t start)
{
    reader->arg_count = 0;
    reader->token = start;
    reader->offset = start;
    reader->base = (uintptr_t)view->data;
    reader->state = view->data[start] == '*' ? STATE_COUNT : STATE_INLINE;
}

/* The caller drops the first start bytes: the unfinished request begins behind them. */
static void shift(struct request_reader *reader, size_t start)
{
    if (start > 0 && reader->state != STATE_START) {
        reader->token -= start;
        reader->offset -= start;
        reader->base += start;
    }
}

static enum step advance_state(struct request_reader *reader, const struct view *view)
{
    switch ((enum reader_state)reader->state) {
    case STATE_INLINE:
        return read_inline(reader, view);
    case STATE_COUNT:
        return read_count(reader, view);
    case STATE_LENGTH:
    case STATE_PAYLOAD:
    case STATE_TAKEN:
        return read_arguments(reader, view);
    case STATE_OFFERED:
        return STEP_BULK;
    case STATE_BROKEN:
        return STEP_ERROR;
    case STATE_START:
        break;
    }
    unreachable();
}

enum reader_result request_reader_advance(struct request_reader *reader, uint8_t *data,
                                          size_t length_bytes, const struct reader_limits *limits,
                                          struct slice *args, uint32_t args_capacity,
                                          size_t *consumed_p)
{
    check(args_capacity >= READER_ARGS_CAPACITY_MIN);
    struct view view = {.length_bytes = length_bytes,
                        .limits = limits,
                        .args = args,
                        .args_capacity = args_capacity};
    view.data = data;
    if (reader->state != STATE_START) {
        check(length_bytes >= reader->token);
        rebase_args(reader, &view);
    }
    size_t start = 0;
    enum step step = STEP_ON;
    while (step == STEP_ON || step == STEP_EMPTY) {
        if (step == STEP_EMPTY) {
            start = reader->offset;
            reader->state = STATE_START;
        }
        if (reader->state == STATE_START) {
            if (start == length_bytes) {
                step = STEP_MORE;
                break;
            }
            if (LIKELY(read_whole_request(reader, &view, start))) {
                step = STEP_REQUEST;
                break;
            }
            begin(reader, &view, start);
        }
        step = advance_state(reader, &view);
    }
    if (step == STEP_REQUEST) {
        *consumed_p = reader->offset;
    } else if (step == STEP_BULK) {
        *consumed_p = reader->token;
    } else if (step == STEP_MORE) {
        shift(reader, start);
        *consumed_p = start;
    } else {
        *consumed_p = 0;
    }
    return (enum reader_result)step;
}

void request_reader_accept_bulk(struct request_reader *reader)
{
    check(reader->state == STATE_OFFERED);
    reader->state = STATE_PAYLOAD;
}

void request_reader_bulk_done(struct request_reader *reader)
{
    check(reader->state == STATE_OFFERED);
    reader->state = STATE_TAKEN;
}

uint64_t request_reader_bytes_wanted(const struct request_reader *reader)
{
    switch ((enum reader_state)reader->state) {
    case STATE_START:
    case STATE_BROKEN:
        return HEADER_BYTES_ROOM;
    case STATE_INLINE:
    case STATE_COUNT:
    case STATE_LENGTH:
    case STATE_OFFERED:
        return reader->offset + HEADER_BYTES_ROOM;
    case STATE_PAYLOAD:
        return reader->token + reader->bulk_bytes + 2;
    case STATE_TAKEN:
        return reader->token + 2;
    }
    unreachable();
}

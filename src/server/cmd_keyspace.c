#include "server/cmd_keyspace.h"

#include "base/glob.h"
#include "base/number.h"
#include "server/gather.h"
#include "server/reply.h"
#include "server/request_gather.h"

#include <string.h>

/* Buckets that one SCAN call may visit at least, so that few keys are found in one call though a shard's
 * table is never small; and at most, whatever COUNT says. How many keys it asks for by default. */
#define SCAN_BUCKETS_MIN   4096
#define SCAN_BUCKETS_MAX   10000
#define SCAN_COUNT_DEFAULT 10
/* KEYS visits so many buckets, or collects so many bytes, before others get their turn; between looks at
 * the bytes it visits a step of buckets. */
#define KEYS_BUCKETS_MAX 4096
#define KEYS_BYTES_MAX   (256U << 10)
#define KEYS_BUCKETS     64
/* Patterns take so many steps (base/glob) before others get their turn. A pattern that may take that many
 * for a single key is looked at after each bucket. */
#define PATTERN_STEPS_MAX       (1U << 20)
#define PATTERN_SHORT_BYTES_MAX 512
/* So many bytes of keys are written before it is looked whether the client reads. */
#define KEYS_REPLY_BYTES (64U << 10)

/* A gather over the keys of the database; NULL: the request is refused. */
static struct gather *begin(struct conn *conn, struct request *request, gather_run_fn *run)
{
    struct gather *gather = request_gather_begin(conn, request, run);
    if (gather != NULL) {
        gather->number = request->database;
        gather->on_shards = true;
    }
    return gather;
}

/* ---- DBSIZE, FLUSH ---- */

static void dbsize_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct shard_database database;
    shard_database(reactor->shard, (uint8_t)gather->number, &gather->now, &database);
    gather->answers[index].number = (int64_t)database.key_count;
}

void cmd_keyspace_plan_dbsize(struct conn *conn, struct request *request)
{
    if (begin(conn, request, dbsize_run) != NULL) {
        request_gather_start(conn, request);
    }
}

void cmd_keyspace_reply_dbsize(struct conn *conn, struct request *request)
{
    reply_integer(conn, gather_sum(request->gather));
    gather_destroy(&request->gather);
}

static void flush_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    (void)index;
    shard_flush(reactor->shard, (uint8_t)gather->number);
}

static void plan_flush(struct conn *conn, struct request *request, bool all)
{
    bool ok = request->arg_count == 1 ||
              (request->arg_count == 2 && (slice_equal_nocase(request->args[1], "sync") ||
                                           slice_equal_nocase(request->args[1], "async")));
    if (!ok) {
        request_refuse(request, ERROR_SYNTAX);
        return;
    }
    if (begin(conn, request, flush_run) != NULL) {
        if (all) {
            request->gather->number = SHARD_DATABASE_ALL;
        }
        request_gather_start(conn, request);
    }
}

void cmd_keyspace_plan_flushall(struct conn *conn, struct request *request)
{
    plan_flush(conn, request, true);
}

void cmd_keyspace_plan_flushdb(struct conn *conn, struct request *request)
{
    plan_flush(conn, request, false);
}

void cmd_keyspace_reply_flush(struct conn *conn, struct request *request)
{
    gather_destroy(&request->gather);
    reply_ok(conn);
}

/* ---- lists of keys: in an answer each is its length (4 bytes) and its bytes ---- */

struct key_filter {
    struct gather_answer *answer;
    struct slice pattern; /* length 0: every key */
    uint64_t steps;       /* that it took */
    bool full;            /* the answer takes no more */
};

static void collect_key(void *argument, struct slice key, const struct value *value)
{
    struct key_filter *filter = argument;
    uint32_t length = (uint32_t)key.length_bytes;
    (void)value;
    if (filter->full || (filter->pattern.length_bytes > 0 &&
                         !glob_match_counted(filter->pattern, key, false, &filter->steps))) {
        return;
    }
    filter->full = !gather_answer_add(filter->answer, &length, sizeof(length)) ||
                   !gather_answer_add(filter->answer, key.data, length);
    filter->answer->number++;
}

/* The keys from offset on until limit is passed; returns where the next begins. */
static size_t reply_collected(struct conn *conn, const struct gather_answer *answer, size_t offset,
                              size_t limit)
{
    while (offset < answer->text_bytes && offset < limit) {
        uint32_t length;
        memcpy(&length, answer->text + offset, sizeof(length));
        offset += sizeof(length);
        reply_bulk(conn, slice_of(answer->text + offset, length));
        offset += length;
    }
    return offset;
}

static void keep_pattern(struct request *request, struct slice pattern)
{
    if (slice_equal(pattern, slice_of_text("*"))) {
        pattern.length_bytes = 0;
    }
    request->gather->text = pattern;
}

/* ---- KEYS: collected in several rounds, then written in several ---- */

/* request->count of KEYS; in KEYS_WRITE round_arg is the reactor whose answer is being written, and number
 * how far. */
enum keys_step {
    KEYS_BEGIN,
    KEYS_COLLECT,
    KEYS_WRITE
};

static void keys_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct gather_answer *answer = &gather->answers[index];
    struct key_filter filter = {.answer = answer, .pattern = gather->text};
    uint32_t step = gather->text.length_bytes > PATTERN_SHORT_BYTES_MAX ? 1 : KEYS_BUCKETS;
    size_t limit = answer->text_bytes + KEYS_BYTES_MAX;
    for (uint32_t visited = 0; !answer->done && visited < KEYS_BUCKETS_MAX &&
                               answer->text_bytes < limit && filter.steps < PATTERN_STEPS_MAX;
         visited += step) {
        answer->cursor = shard_scan(reactor->shard, (uint8_t)gather->number, answer->cursor, step,
                                    &gather->now, collect_key, &filter);
        answer->done = answer->cursor == 0 || filter.full;
    }
}

void cmd_keyspace_plan_keys(struct conn *conn, struct request *request)
{
    if (request->count == KEYS_WRITE) {
        return;
    }
    if (request->count == KEYS_BEGIN) {
        if (begin(conn, request, keys_run) == NULL) {
            return;
        }
        keep_pattern(request, request->args[1]);
    }
    request->count = KEYS_COLLECT;
    request->more = true;
    /* A transaction holds the shards, so that all its keys are of one moment. */
    if (gather_start(conn->reactor, request->gather, conn->batch) &&
        conn->reactor->held_shards == 0) {
        conn_yield(conn);
    }
}

static void end_keys(struct request *request)
{
    request->more = false;
    gather_destroy(&request->gather);
}

static void reply_keys_collected(struct conn *conn, struct request *request)
{
    const struct gather *gather = request->gather;
    int64_t count = 0;
    bool done = true;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        count += gather->answers[i].number;
        done = done && gather->answers[i].done;
    }
    request->more = true;
    if (gather->failed) {
        reply_error(conn, "ERR the keys make too long an answer; use SCAN");
        end_keys(request);
    } else if (done) {
        reply_array(conn, (uint64_t)count);
        request->count = KEYS_WRITE;
        request->round_arg = 0;
        request->number = 0;
    }
}

void cmd_keyspace_reply_keys(struct conn *conn, struct request *request)
{
    const struct gather *gather = request->gather;
    const struct gather_answer *answer;
    if (request->count == KEYS_COLLECT) {
        reply_keys_collected(conn, request);
        return;
    }
    answer = &gather->answers[request->round_arg];
    request->number = (int64_t)reply_collected(conn, answer, (size_t)request->number,
                                               (size_t)request->number + KEYS_REPLY_BYTES);
    if ((size_t)request->number == answer->text_bytes) {
        request->round_arg++;
        request->number = 0;
    }
    request->more = true;
    if (request->round_arg == gather->reactor_count || conn->muted || conn->output.failed) {
        end_keys(request);
    }
}

/* ---- SCAN: the cursor is the shard's own, times the number of shards, plus the shard. A call goes on with
 * the next shard, in a round of its own, until it has what it was asked for ---- */

/* request->count of SCAN. */
enum scan_step {
    SCAN_BEGIN,
    SCAN_GO_ON
};

/* How many buckets a call may visit that asks for so many keys. */
static uint64_t scan_buckets(uint64_t wanted)
{
    if (wanted >= SCAN_BUCKETS_MAX / 10) {
        return SCAN_BUCKETS_MAX;
    }
    return wanted * 10 > SCAN_BUCKETS_MIN ? wanted * 10 : SCAN_BUCKETS_MIN;
}

static void scan_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct gather_answer *answer = &gather->answers[index];
    struct key_filter filter = {.answer = answer, .pattern = gather->text};
    uint64_t wanted = gather->flags;
    uint64_t buckets_max = scan_buckets(wanted);
    uint64_t cursor = gather->cursor / gather->reactor_count;
    if (gather->cursor % gather->reactor_count != index) {
        return;
    }
    /* COUNT is about keys looked at; with MATCH few of them may be in the answer. */
    do {
        cursor = shard_scan(reactor->shard, (uint8_t)gather->number, cursor, 1, &gather->now,
                            collect_key, &filter);
        answer->cursor++;
    } while (cursor != 0 && !filter.full && (uint64_t)answer->number < wanted &&
             answer->cursor < buckets_max && filter.steps < PATTERN_STEPS_MAX);
    answer->done = filter.steps >= PATTERN_STEPS_MAX;
    if (cursor != 0) {
        gather->next_cursor = cursor * gather->reactor_count + index;
    } else {
        gather->next_cursor = (index + 1) % gather->reactor_count;
    }
}

/* A type that is not "string" has no keys. */
static bool parse_scan(struct request *request, struct slice *pattern, uint64_t *count, bool *none)
{
    for (uint32_t i = 2; i < request->arg_count; i += 2) {
        struct slice word = request->args[i];
        int64_t number;
        if (i + 1 >= request->arg_count) {
            request_refuse(request, ERROR_SYNTAX);
            return false;
        }
        if (slice_equal_nocase(word, "match")) {
            *pattern = request->args[i + 1];
        } else if (slice_equal_nocase(word, "type")) {
            *none = !slice_equal_nocase(request->args[i + 1], "string");
        } else if (!slice_equal_nocase(word, "count")) {
            request_refuse(request, ERROR_SYNTAX);
            return false;
        } else if (!slice_to_i64(request->args[i + 1], &number)) {
            request_refuse(request, ERROR_NOT_INTEGER);
            return false;
        } else if (number < 1) {
            request_refuse(request, ERROR_SYNTAX);
            return false;
        } else {
            *count = (uint64_t)number;
        }
    }
    return true;
}

void cmd_keyspace_plan_scan(struct conn *conn, struct request *request)
{
    struct slice pattern = slice_of_text("*");
    uint64_t count = SCAN_COUNT_DEFAULT;
    uint64_t cursor;
    bool none = false;
    if (request->count == SCAN_GO_ON) {
        request_gather_start(conn, request);
        return;
    }
    if (!slice_to_u64(request->args[1], &cursor)) {
        request_refuse(request, "ERR invalid cursor");
        return;
    }
    if (!parse_scan(request, &pattern, &count, &none) || begin(conn, request, scan_run) == NULL) {
        return;
    }
    keep_pattern(request, pattern);
    request->gather->cursor = cursor;
    request->gather->flags = count;
    request->flags = none;
    request_gather_start(conn, request);
}

void cmd_keyspace_reply_scan(struct conn *conn, struct request *request)
{
    struct gather *gather = request->gather;
    char text[24];
    uint64_t count = 0;
    uint64_t buckets = 0;
    bool tired = false;
    request->more = false;
    if (gather->failed) {
        gather_destroy(&request->gather);
        reply_error(conn, ERROR_ANSWER_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        count += (uint64_t)gather->answers[i].number;
        buckets += gather->answers[i].cursor;
        tired = tired || gather->answers[i].done;
    }
    if (gather->next_cursor != 0 && count < gather->flags && !tired &&
        buckets < scan_buckets(gather->flags)) {
        gather->cursor = gather->next_cursor;
        request->count = SCAN_GO_ON;
        request->more = true;
        return;
    }
    reply_array(conn, 2);
    reply_bulk(conn, slice_of(text, number_from_u64(text, gather->next_cursor)));
    reply_array(conn, request->flags != 0 ? 0 : count);
    for (uint32_t i = 0; i < gather->reactor_count && request->flags == 0; i++) {
        (void)reply_collected(conn, &gather->answers[i], 0, SIZE_MAX);
    }
    gather_destroy(&request->gather);
}

/* ---- RANDOMKEY ---- */

static void randomkey_run(struct reactor *reactor, struct gather *gather, uint32_t index)
{
    struct gather_answer *answer = &gather->answers[index];
    struct shard_database database;
    struct slice key;
    shard_database(reactor->shard, (uint8_t)gather->number, &gather->now, &database);
    if (shard_random_key(reactor->shard, (uint8_t)gather->number, gather->flags, &gather->now,
                         &key)) {
        answer->number = (int64_t)(database.key_count > 0 ? database.key_count : 1);
        (void)gather_answer_add(answer, key.data, key.length_bytes);
    }
}

void cmd_keyspace_plan_randomkey(struct conn *conn, struct request *request)
{
    if (begin(conn, request, randomkey_run) != NULL) {
        request->gather->flags = random_u64(&conn->reactor->random);
        request_gather_start(conn, request);
    }
}

void cmd_keyspace_reply_randomkey(struct conn *conn, struct request *request)
{
    struct gather *gather = request->gather;
    int64_t total = 0;
    int64_t pick;
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        total += gather->answers[i].number;
    }
    if (total == 0) {
        reply_null(conn);
        gather_destroy(&request->gather);
        return;
    }
    pick = (int64_t)random_below(&conn->reactor->random, (uint64_t)total);
    for (uint32_t i = 0; i < gather->reactor_count; i++) {
        const struct gather_answer *answer = &gather->answers[i];
        if (pick < answer->number) {
            reply_bulk(conn, slice_of(answer->text, answer->text_bytes));
            break;
        }
        pick -= answer->number;
    }
    gather_destroy(&request->gather);
}

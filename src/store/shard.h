#pragma once
/* shard – one core's part of the keyspace: index, expiry, eviction, pins, grants, over this core's
 * runs of the common payload pages. Used by one thread at a time; knows no sockets, no clock, no protocol: time
 * is an argument. Owns values and grants; borrows the page pools.
 *
 * What shard_execute leaves in op.status:
 *   GET           OK (value pinned, integer = length, expires_at_ms = former expiry), NOT_FOUND
 *   SET           OK, EXISTS, NOT_FOUND (XX), NO_MEMORY, AGAIN, TOO_LARGE
 *   RESERVE       OK (value pinned), EXISTS, NO_MEMORY, AGAIN, TOO_LARGE
 *   COMMIT        OK, EXISTS, NOT_FOUND; the reserved value is gone from the caller's hands always
 *   ABORT         OK
 *   GRANT_RESERVE OK (grant_id, deadline_us), EXISTS, NO_MEMORY, AGAIN, TOO_LARGE, BUSY (too many)
 *   GRANT_FILL    OK (value pinned, put = what was reserved, key rewritten to the value's key),
 *                 NOT_FOUND (never was, or another owner's), EXPIRED
 *   GRANT_ABORT   OK, NOT_FOUND
 *   LEASE         OK (value, integer, grant_id, deadline_us), NOT_FOUND, BUSY (too many)
 *   RELEASE       OK, NOT_FOUND (also another owner's)
 *   REMOVE        OK, NOT_FOUND (also when it is not the same value any more)
 *   EXISTS        OK (integer = length, expires_at_ms), NOT_FOUND
 *   EXPIRE        OK, NOT_FOUND (no key, or the rule said no: integer -1)
 *   PERSIST       OK, NOT_FOUND (no key, or no expiry)
 *   ADD           OK (integer), INVALID (not an integer), TOO_LARGE (overflow), NO_MEMORY, AGAIN
 *   ADD_FLOAT     OK (value pinned), INVALID (not a float), TOO_LARGE (NaN or infinity), NO_MEMORY…
 *   APPEND        OK (integer), TOO_LARGE, NO_MEMORY, AGAIN
 *   SET_RANGE     likewise
 *   FIELDS        OK (each field's number, or refused), TOO_LARGE, NO_MEMORY, AGAIN
 *   BIT_COUNT     OK (integer), NOT_FOUND
 *   BIT_FIND      OK (integer: -1 none), NOT_FOUND
 *   SET_FROM      OK (integer = length), EXISTS, NOT_FOUND (XX), NO_MEMORY, AGAIN, TOO_LARGE
 *   PIN, UNPIN    OK, NOT_FOUND; PIN: BUSY when pins hold their whole share of memory
 *   STAT          OK, NOT_FOUND
 * What can end in NO_MEMORY can end in QUOTA: the tenant has all it may, and none of it can go.
 * What can end in NO_MEMORY, and BIT_COUNT and BIT_FIND, can say PENDING as well: room for a long value
 * takes more than one turn, and so do its bytes, SHARD_STEP_BYTES in each; execute the same op again
 * in the next. Until it is done the op holds pins in value and old. An edit that began anew several times,
 * because others changed the key, goes first: who would change the key says PENDING until it is done, and
 * works on it. So an op that says PENDING stays where it is in memory.
 * A key longer than VALUE_KEY_BYTES_MAX or a database that does not exist is INVALID. Whoever gets
 * value or old holds one pin; in LEASE the grant has its own besides; GRANT_RESERVE hands out no
 * value. A hard pin asked for along with SET, COMMIT or EXISTS becomes a soft one when the share is
 * used up. AGAIN: there is no free page, and nothing here to evict, but other shards hold pages: have them
 * give some (shard_reclaim) and try the same op again. An expired key is not there, for every op. */

#include "base/clock.h"
#include "base/compiler.h"
#include "mem/pages.h"
#include "store/event_ring.h"
#include "store/notice.h"
#include "store/op.h"
#include "store/policy.h"
#include "store/recall.h"
#include "store/tenant.h"
#include "store/watch.h"

#include <stdbool.h>
#include <stdint.h>

struct shard;

/* Bytes that one execution of an op copies or looks through at most. */
#define SHARD_STEP_BYTES (1U << 20)

struct shard_config {
    uint32_t index; /* of this shard; part of grant ids */
    uint32_t shard_count;
    uint32_t node;         /* memory node that this shard's thread is on, as the pools count them */
    struct pages *payload; /* borrowed; common to all shards */
    struct pages *metadata;          /* borrowed; common to all shards; private memory */
    const struct policy_ops *policy; /* NULL: never evict */
    struct reuse *reuse; /* borrowed; common to all shards; NULL: what policies learn stays here */
    uint64_t value_bytes_max;  /* longer values are TOO_LARGE; the pool's size bounds it, too */
    uint64_t append_bytes_max; /* of APPEND, SETRANGE (Redis: proto-max-bulk-len, 512 MiB) */
    uint64_t hash_seed;        /* of op_hash, with which all ops come */
    uint32_t grants_max;       /* leases and reservations together */
    uint32_t database_count;
    int64_t events_zero_us; /* Unix time when the moments' mono_us was 0; of all shards the same */
    struct tenant_use
        *tenant_uses; /* borrowed: one of each shard, zero at first; NULL: one shard */
    struct moment now;
};

/* NULL when out of memory. */
struct shard *shard_create(const struct shard_config *config);
/* Every pin must have come back. */
void shard_destroy(struct shard **shard_p);

void shard_execute(struct shard *shard, struct op *op, const struct moment *now);

/* What an op looks at, each found by way of the one before. */
enum shard_step {
    SHARD_STEP_BUCKET,
    SHARD_STEP_VALUE,
    SHARD_STEP_AROUND, /* the bookkeeping of its memory, its neighbours, its first bytes */
    SHARD_STEP_COUNT
};

/* Has what an op with this key's hash will look at on its way from memory: call it for several ops
 * with one step, then for the same with the next, then execute them. Changes nothing. */
void shard_prefetch(const struct shard *shard, uint64_t hash, enum shard_step step);

/* The shard that gave out a grant id; any number comes back as some index, which may not exist. */
uint32_t shard_of_grant(uint64_t grant_id);

/* Hands a pin back without an op. Sets *value_p to NULL. */
void shard_unpin(struct shard *shard, struct value **value_p);

/* Ends all grants of a connection: leases are released, reservations aborted. */
void shard_drop_owner(struct shard *shard, uint64_t owner);

/* From here until shard_unwatch, watch->touched tells whether its key changed. KVASIR_OK; KVASIR_BUSY
 * (too many are watched) or KVASIR_EXISTS (its owner watches the key already): it is not linked. The watch
 * and its key are borrowed meanwhile. */
ATTR_MUST_USE enum kvasir_status shard_watch(struct shard *shard, struct watch *watch,
                                             const struct moment *now);
void shard_unwatch(struct shard *shard, struct watch *watch);
/* Whether the key changed; that it expired is a change, too. */
bool shard_watch_touched(struct shard *shard, struct watch *watch, const struct moment *now);

/* Has the shard keep what happens to its keys in so many bytes, all before from_us being lost; what was
 * kept is lost when that is another size than before. 0 ends it. False: out of memory; then nothing is
 * kept. */
ATTR_MUST_USE bool shard_events_keep(struct shard *shard, uint64_t capacity_bytes, int64_t from_us);

/* Which classes of notices are kept from here on (bits of enum notice_class; 0: none). */
void shard_notices_want(struct shard *shard, uint32_t classes);
/* Visits the notices since the last time. True: some were lost. */
bool shard_notices_take(struct shard *shard, notice_visit_fn *visit, void *argument);

/* What was lent and is to be taken back, since the last time. Deleted, flushed, evicted or expired keys' values are
 * told when something pins them, overwritten ones are not. */
bool shard_recalls_pending(const struct shard *shard);
void shard_recalls_take(struct shard *shard, struct recall_list *list_p);

/* Which events: those behind a number that came before until_us. */
struct shard_events_query {
    uint64_t since;
    int64_t until_us; /* Unix time; all shards are asked with the same */
    uint32_t count_max;
    uint64_t bytes_max; /* one event may pass it */
};

struct shard_events_state {
    uint64_t lost;           /* the latest number that is not there any more */
    uint64_t reached;        /* all events of the shard up to here were visited, or are lost */
    uint64_t capacity_bytes; /* 0: nothing is kept */
};

/* Calls visit for each event, the oldest first; it returns false to end that, and is asked again for
 * that event. The event is borrowed for the call. */
typedef bool shard_event_fn(void *argument, const struct event *event);
void shard_events_read(struct shard *shard, const struct shard_events_query *query,
                       const struct moment *now, shard_event_fn *visit, void *argument,
                       struct shard_events_state *state_p);
uint64_t shard_events_bytes(const struct shard *shard);
/* Since they were last read; 0 when nothing is kept. */
int64_t shard_events_idle_us(const struct shard *shard, const struct moment *now);

/* Background work, bounded by budget steps: expired keys, expired grants, growth of the index.
 * Returns true when there is more to do at once. Call it about every 10 ms. */
bool shard_tick(struct shard *shard, const struct moment *now, uint32_t budget);

/* Whether the ticks take away what expired; without, it goes when an op comes upon it. At first they do. */
void shard_set_active_expiry(struct shard *shard, bool active);
/* While it is held, neither ticks nor ops that only look take away what expired, though it is not there
 * for any op. What stores under such a key does, and so does eviction. */
void shard_hold_expired(struct shard *shard, bool held);

/* Moves values and evicts until page_count pages went back to the common pool, or nothing evictable is
 * left, or it has been enough for one turn. Returns how many pages that were. */
uint32_t shard_reclaim(struct shard *shard, uint32_t page_count, const struct moment *now);

/* Looks at every value once: rare, and not quick in a big shard. The old policy stays when there is
 * no memory for the new one's state. */
void shard_set_policy(struct shard *shard, const struct policy_ops *policy);
/* Longer values are TOO_LARGE from now on; those that are there stay. */
void shard_set_value_max(struct shard *shard, uint64_t length_bytes);

/* Tenants from now on: those of the same name keep their counts, values go to whom they belong then.
 * All shards are given the same tables in the same order, so that rows are the same in all. Looks at
 * every value once when more than limits changed. False: out of memory, all is as before. */
ATTR_MUST_USE bool shard_set_tenants(struct shard *shard, const struct tenant_table *table);
const struct tenant_table *shard_tenants(const struct shard *shard);

/* All of numbers, so that those of several shards can be summed. */
struct shard_tenant_stats {
    uint64_t bytes, value_count, fixed_bytes, hits, misses, evicted, evicted_bytes, refused;
};
void shard_tenant_stats(const struct shard *shard, uint32_t row,
                        struct shard_tenant_stats *stats_p);

typedef void shard_visit_fn(void *argument, struct slice key, const struct value *value);

/* Visits the keys of a part of the index (Redis's SCAN promise: what is there all the time is
 * visited, and once, whatever the index does meanwhile). Starts at cursor 0; returns the next
 * cursor, 0 at the end. bucket_count bounds the work. */
uint64_t shard_scan(struct shard *shard, uint8_t database, uint64_t cursor, uint32_t bucket_count,
                    const struct moment *now, shard_visit_fn *visit, void *argument);

/* Some key, uniformly enough; false when the database is empty. The slice lives until the next call
 * that changes the shard. */
bool shard_random_key(struct shard *shard, uint8_t database, uint64_t random,
                      const struct moment *now, struct slice *key_p);

/* Removes every key of a database (or of all, with SHARD_DATABASE_ALL): at once for every op and every
 * count of keys; the memory comes back in the ticks that follow, or when somebody needs it. */
#define SHARD_DATABASE_ALL UINT8_MAX
void shard_flush(struct shard *shard, uint8_t database);

/* Clients know the two databases by each other's number from now on, in what is told of their keys, and
 * keys watched in one are watched in the other. The caller chooses each op's database accordingly. */
void shard_swap(struct shard *shard, uint8_t first, uint8_t second, const struct moment *now);

/* Keys, keys with an expiry, and the mean time to live of those, of one database. */
struct shard_database {
    uint64_t key_count;
    uint64_t expiring_count;
    int64_t mean_ttl_ms;
};
void shard_database(const struct shard *shard, uint8_t database, const struct moment *now,
                    struct shard_database *database_p);

struct shard_stats {
    uint64_t key_count, value_count, orphan_count, reserved_count;
    uint64_t payload_bytes;       /* raw bytes of all values that hold memory */
    uint64_t payload_taken_bytes; /* with rounding */
    uint64_t metadata_bytes;      /* taken for values, keys, the index, grants and notices */
    uint64_t grants_bytes, index_bytes;
    uint64_t index_moved; /* values and buckets that growing and shrinking ever handled */
    uint64_t hits, misses, evicted, expired, expired_grants, denied_no_memory;
    uint64_t evicted_bytes;
    uint64_t moved_bytes, drained_pages; /* by emptying sparse pages */
    uint32_t payload_pages, metadata_pages, leases, reservations;
    uint32_t
        stale_ppm; /* of keys with a time to live: have expired and are still there (estimate) */
    uint64_t expiring_count;
};
/* Any time, by the shard's thread. */
void shard_stats(const struct shard *shard, struct shard_stats *stats_p);
/* Counts of what happened, those of tenants as well, begin anew; what is there stays counted. */
void shard_reset_counts(struct shard *shard);

/* How long what is evicted was not used, how long values are not used on the average (both smoothed, the
 * latter sampled by the ticks), and bytes evicted since the start. */
struct shard_ages {
    uint64_t victim_age_s, mean_age_s, evicted_bytes;
};
void shard_ages(const struct shard *shard, struct shard_ages *ages_p);

/* For tests: recounts everything by walking it, and fails a check where a count is wrong. */
void shard_verify(const struct shard *shard);

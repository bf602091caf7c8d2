#pragma once
/* shard_impl – the insides of a shard, for its own files: shard.c (life, dispatch, scans, counts),
 * shard_value.c (a value's states), shard_evict.c (who goes), shard_room.c (how room is made),
 * shard_move.c (moving values), shard_pin.c (pins, leases, grants), shard_put.c, shard_read.c,
 * shard_edit.c, shard_build.c, shard_bits.c (the kinds of op), shard_expire.c (background),
 * shard_watch.c, shard_recall.c, shard_event.h (what others are told), shard_kinds.h. */

#include "mem/layout.h"
#include "store/grant.h"
#include "store/index.h"
#include "store/meta.h"
#include "store/notice.h"
#include "store/shard.h"
#include "store/value_list.h"

#define SHARD_MAGIC 0x73686172U
/* A long double written out in full, and its fraction. */
#define SHARD_SCRATCH_BYTES 5120U
/* Watched keys: so many chains, and so many watches, that a look is short. */
#define SHARD_WATCH_BUCKETS 1024U
#define SHARD_WATCHES_MAX   (16U * SHARD_WATCH_BUCKETS)

/* One database's counts. */
struct shard_space {
    uint64_t key_count;
    uint64_t expiring_count;
    uint64_t backlog_count;  /* flushed values that are still in the index */
    int64_t expires_sum_s;   /* of the expiry times in seconds, each clamped */
    uint32_t flushes_behind; /* flushes since backlog_count was 0 */
    uint16_t epoch;          /* a value of another epoch was flushed */
};

/* What a tenant has here; see shard_tenant.h. */
struct shard_tenant {
    struct policy *policy;  /* owned; NULL: never evict, or a row that is free */
    struct value_list soft; /* set aside because of a soft pin: they go when nothing else can */
    uint64_t bytes, value_count;
    uint64_t fixed_bytes;                                 /* held, or not yet sealed */
    uint64_t others_bytes, others_fixed_bytes, put_bytes; /* when others were looked at; since */
    uint64_t guarantee_bytes;                             /* as far as all can be kept */
    uint64_t hits, misses, evicted, evicted_bytes, refused;
};

struct shard {
    uint32_t magic;
    struct shard_config config;
    struct moment now; /* of the running or last call */
    int64_t start_us;  /* zero of the shard's own clock */
    struct index index;
    struct meta meta;
    struct runs *payload;                /* owned */
    const struct policy_ops *policy_ops; /* NULL: never evict */
    struct tenant_table tenant_table;
    struct shard_tenant tenants[TENANTS_MAX]; /* the first: of all who are no tenant */
    struct value_list detached;               /* reserved values and orphans */
    struct op *first_edit; /* pending, borrowed, with a value; NULL: none; see shard.h */
    struct grant_table grants;
    struct shard_space *spaces;        /* owned; database_count of them */
    uint8_t shown[SHARD_DATABASE_ALL]; /* by what number clients know a database: see shard_swap */
    uint64_t backlog_count;            /* sums over all databases */
    uint64_t expiring_count;
    uint64_t soft_count;   /* values whose pin_kind is VALUE_PIN_SOFT */
    uint64_t sweep_bucket; /* where the walk for expired and flushed values goes on */
    uint64_t sweep_credit; /* buckets that are due, times SHARD_CREDIT_UNIT */
    uint32_t swept_expiring,
        swept_stale;    /* of this tick: keys with a time to live, and those over it */
    uint32_t stale_ppm; /* of keys with a time to live: over it and still there, as walks find */
    int64_t tick_us;    /* of the last tick */
    bool expires_lazily, holds_expired; /* see shard_set_active_expiry, shard_hold_expired */
    uint64_t value_count, orphan_count, reserved_count;
    uint64_t unlinked_count; /* values that ever left the index: pointers may be stale */
    uint64_t payload_bytes;
    uint64_t held_bytes;  /* of values with holds */
    uint32_t whole_pages; /* payload pages outside runs */
    uint32_t hoard_first; /* free pages kept for a long value that waits, chained; or PAGES_NONE */
    uint32_t hoard_count;
    int64_t hoard_us; /* when somebody last asked for them */
    uint64_t evicted_bytes, evicted_bytes_before /* a reset */, moved_bytes, drained_pages;
    uint32_t victim_age_256ths; /* of a second, smoothed over the last victims */
    uint32_t mean_age_256ths;   /* the same of values that were sampled */
    uint64_t sampled_bucket;
    uint64_t looked_bytes; /* evicted_bytes when pages that were given up were last tried again */
    uint64_t hits, misses, evicted, expired, expired_grants, denied_no_memory;
    struct event_ring *events; /* owned; NULL: nobody asked for them */
    uint64_t events_asked_bytes;
    int64_t events_read_us;
    struct notice_queue notices;
    struct recall_list recalls;
    bool tells, lends; /* events or notices are kept; something was ever handed out to be lent */
    uint32_t watch_count;
    struct list watches[SHARD_WATCH_BUCKETS]; /* linked are struct watch, by hash */
    char scratch[SHARD_SCRATCH_BYTES];
};

/* ---- shard_value.c ---- */

static inline struct shard_space *shard_space_of(struct shard *shard, const struct value *value)
{
    return &shard->spaces[value->database];
}

static inline bool shard_value_flushed(const struct shard *shard, const struct value *value)
{
    return value->epoch != shard->spaces[value->database].epoch;
}

static inline bool shard_value_expired(const struct shard *shard, const struct value *value)
{
    return value->expires_at_ms != 0 && value->expires_at_ms <= shard->now.wall_ms;
}

/* Who works on the shard in turn read the clock at different moments: an earlier one changes nothing,
 * so that the shard's time never runs backwards. */
static inline void shard_set_now(struct shard *shard, const struct moment *now)
{
    if (now->mono_us >= shard->now.mono_us) {
        shard->now = *now;
    }
}

static inline uint32_t shard_clock_ms(const struct shard *shard)
{
    return (uint32_t)((shard->now.mono_us - shard->start_us) / 1000);
}

static inline uint32_t shard_clock_s(const struct shard *shard)
{
    return (uint32_t)((shard->now.mono_us - shard->start_us) / 1000000);
}

/* The key's value, borrowed; one that expired or was flushed is removed on the way. */
struct value *shard_value_find(struct shard *shard, const struct op *op);
/* Counts an access. */
void shard_value_touch(struct shard *shard, struct value *value);
/* Takes memory, evicting for it: a reserved value with one pin. KVASIR_OK, KVASIR_TOO_LARGE,
 * KVASIR_NO_MEMORY or KVASIR_AGAIN; borrowed values without a pin may be gone after it. */
ATTR_MUST_USE enum kvasir_status shard_value_take(struct shard *shard, const struct op *op,
                                                  uint64_t length_bytes, struct value **value_p);
/* Ends a value that is in no list of the index: gives all its memory back. */
void shard_value_give(struct shard *shard, struct value **value_p);
/* Reserved becomes sealed: the key has no other value. The pin stays. */
void shard_value_link(struct shard *shard, struct value *value);
/* Sealed becomes orphan, or is freed when nothing pins it. why: what others are told. */
void shard_value_unlink(struct shard *shard, struct value *value, enum event_kind why);
void shard_value_set_expiry(struct shard *shard, struct value *value, int64_t expires_at_ms);
void shard_value_write(struct shard *shard, struct value *value, struct slice bytes);
void shard_value_cursor(const struct shard *shard, const struct value *value,
                        struct layout_cursor *cursor_p);
/* Into and out of the policy's hands. */
void shard_value_enlist(struct shard *shard, struct value *value);
void shard_value_delist(struct shard *shard, struct value *value);
uint32_t shard_value_whole_pages(const struct shard *shard, const struct value *value);

/* ---- shard_evict.c ---- */

/* Frees one value that may go, for the tenant that wants room. False: there is none. */
bool shard_evict_one(struct shard *shard, uint32_t tenant, bool metadata);
/* One of that tenant's. */
bool shard_evict_tenant(struct shard *shard, uint32_t tenant);
/* NO_MEMORY, or AGAIN when other shards hold pages of that pool. */
enum kvasir_status shard_evict_verdict(const struct shard *shard, bool metadata);
uint32_t shard_evict_payload_pages(const struct shard *shard);

/* ---- shard_age.c ---- */

/* A value is being evicted. */
void shard_age_note_victim(struct shard *shard, const struct value *value);
/* Looks at a few values. */
void shard_age_sample(struct shard *shard);

/* ---- shard_room.c ---- */

/* What one op may still spend on making room, so that nobody waits long for it. */
struct shard_room {
    uint64_t copy_bytes;
    uint32_t evictions;
    uint32_t tenant; /* for whom */
};

struct shard_room shard_room_begin(uint32_t tenant);
/* Makes some room for a value of this length (or for metadata), by moving others or by evicting.
 * KVASIR_OK: try again at once; KVASIR_PENDING: enough for this turn, call again in the next; else
 * there is no room to be made: KVASIR_NO_MEMORY or KVASIR_AGAIN. */
enum kvasir_status shard_room_make(struct shard *shard, struct shard_room *room,
                                   uint64_t length_bytes, bool metadata);
/* Free pages that nobody but this shard's long values may have go back to the pool. */
void shard_room_release(struct shard *shard);
/* Background: sparse pages are drained when free pages are few. */
void shard_room_tick(struct shard *shard);

/* ---- shard_move.c ---- */

/* Moves values out of the page that is being drained, or out of the sparsest that is no fuller than
 * level_max 64ths, for up to *copy_bytes_p bytes. False: there is nothing to move. */
bool shard_move_some(struct shard *shard, uint32_t level_max, uint64_t *copy_bytes_p);
/* What is taken from the payload now will be the value's. */
void shard_move_set_taker(struct shard *shard, const struct value *value);

/* ---- shard_pin.c ---- */

static inline struct value *shard_pin_take(struct value *value)
{
    value->pins++;
    return value;
}

/* KVASIR_OK, KVASIR_BUSY (a hard pin beyond the share of memory, or no free grant). */
enum kvasir_status shard_pin_set(struct shard *shard, struct value *value, enum value_pin kind,
                                 uint32_t pin_ms);
/* As above, and what cannot be a hard pin becomes a soft one. */
void shard_pin_try(struct shard *shard, struct value *value, enum value_pin kind, uint32_t pin_ms);
void shard_pin_clear(struct shard *shard, struct value *value);
/* Milliseconds left of the timed pin, 0: none. */
int64_t shard_pin_left_ms(const struct shard *shard, const struct value *value);
bool shard_pin_soft_running(const struct shard *shard, const struct value *value);
/* The grant an op names; NULL, and op->status NOT_FOUND or EXPIRED. One that is over time ends here. */
struct grant *shard_pin_find_grant(struct shard *shard, struct op *op, enum grant_kind kind);
/* The deadline asked for, within what is allowed. */
int64_t shard_pin_deadline_us(const struct shard *shard, int64_t deadline_us);
/* Ends a grant of whatever kind, and what it held. */
void shard_pin_end_grant(struct shard *shard, struct grant **grant_p, bool expired);

/* ---- shard_expire.c ---- */

/* Visits the next bucket of the walk; returns how many values it removed. */
uint32_t shard_expire_bucket(struct shard *shard);

/* ---- what they have in common ---- */

/* An access is counted. */
void shard_read_missed(struct shard *shard, const struct op *op);
void shard_read_hit(struct shard *shard, const struct op *op, const struct value *value);
/* The key's value (borrowed, NULL: none), counted as a hit or a miss and, unless the op says otherwise,
 * as an access; sets status and integer. */
struct value *shard_read_find(struct shard *shard, struct op *op);
/* Looks at NX and XX, and hands out the former value. False: the answer is no, op->status says it. */
bool shard_put_allowed(struct op *op, struct value *old);
/* Room for the next value of the key; old (may be NULL) comes back pinned, so that making room cannot
 * take it. On failure op->status says why and nothing is pinned. */
struct value *shard_edit_begin(struct shard *shard, struct op *op, struct value *old,
                               uint64_t length_bytes);
/* Ends what begin began: the value, the shard's from here, takes old's place. */
void shard_edit_end(struct shard *shard, struct value *old, struct value *value);
/* APPEND, SET_RANGE, FIELDS: begins to build the value that follows old, the key's present one, or
 * goes on with it. */
void shard_build_edit(struct shard *shard, struct op *op, struct value *old);
/* Bytes that the fields to be written reach to; 0: none is written. */
uint64_t shard_bits_end(const struct op *op);
/* Does what the fields say in a value that is not sealed (or may be NULL, when none is written). */
void shard_bits_apply(struct shard *shard, struct op *op, const struct value *value);

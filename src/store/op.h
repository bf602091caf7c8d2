#pragma once
/* op – one key's piece of work, done by the shard that owns the key: what is asked and what came of
 * it. Plain data: it travels between cores in a message and belongs to whoever holds the message.
 * Slices are borrowed from the sender until it gets the op back. */

#include "base/slice.h"
#include "store/value.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stdint.h>

enum op_kind {
    OP_GET,           /* pins the value; may delete it or change its expiry in the same step */
    OP_SET,           /* stores a copy of payload (one copy: short values only) */
    OP_RESERVE,       /* memory for length_bytes, held for the sender to fill: value (pinned) */
    OP_COMMIT,        /* seals the reserved value it is handed back (unpins it) */
    OP_ABORT,         /* frees the reserved value it is handed back */
    OP_GRANT_RESERVE, /* like RESERVE, as a grant with an id and a deadline (KV.RESERVE) */
    OP_GRANT_FILL,    /* takes grant_id's value for filling: value (pinned), no deadline any more;
                       * put, flags, database and key are rewritten to what was reserved; key
                       * lives as long as the value */
    OP_GRANT_ABORT,   /* frees grant_id's value */
    OP_LEASE,       /* pins the value under a grant with an id and a deadline: grant_id; value comes
                  * with a pin of its own besides, to be handed back as after OP_GET */
    OP_RELEASE,     /* ends lease grant_id */
    OP_UNPIN_VALUE, /* hands back the pin got with OP_GET (value) */
    OP_REMOVE,
    OP_EXISTS, /* length, former expiry; no pin on the bytes; may touch and pin for a time */
    OP_EXPIRE, /* sets expires_at_ms under the condition in expire_rule */
    OP_PERSIST,
    OP_ADD,       /* INCRBY: delta; result in integer */
    OP_ADD_FLOAT, /* INCRBYFLOAT: delta_float; result text is the new value (pinned) */
    OP_APPEND,    /* integer: new length */
    OP_SET_RANGE, /* offset_bytes, payload; integer: new length */
    OP_FIELDS,    /* fields: read and written in order, each with its result */
    OP_BIT_COUNT, /* range; integer: how many bits of it are set */
    OP_BIT_FIND,  /* range; integer: where the first bit of that kind is */
    OP_SET_FROM,  /* stores what sources make together: COPY, RENAME, BITOP */
    OP_PIN,       /* pin_kind, pin_ms */
    OP_UNPIN,
    OP_STAT, /* everything: stat */
};

/* Flags of OP_SET, OP_COMMIT, OP_RESERVE, OP_GRANT_RESERVE and OP_SET_FROM (which has no use for
 * RETURN_OLD). */
#define OP_SET_IF_ABSENT  1U /* NX: else KVASIR_EXISTS */
#define OP_SET_IF_PRESENT 2U /* XX: else KVASIR_NOT_FOUND */
#define OP_SET_KEEP_TTL   4U
#define OP_SET_RETURN_OLD \
    8U                      /* old: the former value, pinned, or NULL; when the condition said no,
                              * too (also by OP_RESERVE's early KVASIR_EXISTS), but never with
                              * NO_MEMORY, AGAIN or TOO_LARGE */
#define OP_SET_CHECKSUM 16U /* meta.checksum is to be kept */
/* Flags of OP_GET and OP_EXISTS. */
#define OP_READ_NO_TOUCH 32U  /* does not count as an access */
#define OP_READ_REMOVE   64U  /* GETDEL */
#define OP_READ_EXPIRE   128U /* GETEX: set expires_at_ms (0: persist) */
/* Flag of OP_REMOVE. */
#define OP_REMOVE_SAME 256U /* only while the key's value is same: else KVASIR_NOT_FOUND */
/* Flag of OP_GET. */
#define OP_READ_LENT 512U /* peers will reach the bytes: the end of the key is told, see recall.h */

enum op_expire_rule {
    OP_EXPIRE_ALWAYS,
    OP_EXPIRE_NX,
    OP_EXPIRE_XX,
    OP_EXPIRE_GT, /* not without an expiry, which counts as the latest there is */
    OP_EXPIRE_LT,
    OP_EXPIRE_XX_LT
};

/* How OP_SET_FROM makes a value of its sources; the shorter ones are continued with zeros. */
enum op_combine {
    OP_COMBINE_COPY, /* of one */
    OP_COMBINE_NOT,  /* of one */
    OP_COMBINE_AND,
    OP_COMBINE_OR,
    OP_COMBINE_XOR
};

/* What an op is a part of: it is told to others by that name (notice.h). */
enum op_purpose {
    OP_FOR_ITSELF,
    OP_FOR_RENAME,
    OP_FOR_MOVE,
    OP_FOR_COPY,
    OP_FOR_RESTORE
};

enum op_field_kind {
    OP_FIELD_GET,
    OP_FIELD_SET, /* result: the former number */
    OP_FIELD_ADD  /* result: the new number */
};

enum op_overflow {
    OP_OVERFLOW_WRAP,
    OP_OVERFLOW_SATURATE,
    OP_OVERFLOW_FAIL /* nothing is written, and the field is refused */
};

/* One integer of 1 to 64 bits in a value, most significant bit first. */
struct op_field {
    uint64_t offset_bits;
    int64_t number; /* in: what to set or add; out: the result */
    uint8_t bit_count;
    uint8_t kind;     /* enum op_field_kind */
    uint8_t overflow; /* enum op_overflow */
    bool is_signed;
    bool refused; /* out */
};

/* A part of a value, negative counts from its end, as in BITCOUNT and BITPOS. */
struct op_range {
    int64_t start, end; /* both included */
    bool whole;         /* start and end are not given */
    bool open;          /* end is not given */
    bool in_bits;
    bool bit; /* BIT_FIND: which one */
};

/* What a put says about the value besides its bytes. */
struct op_put {
    uint64_t length_bytes;
    uint64_t checksum;
    uint64_t parent_hash;  /* 0: none */
    int64_t expires_at_ms; /* Unix time; 0: never */
    uint32_t pin_ms;
    uint8_t pin_kind;    /* enum value_pin */
    uint8_t value_class; /* enum kvasir_class */
    uint8_t cost_log2;   /* of recomputing it, in any unit, and 1; 0: nothing is said */
};

struct op_stat {
    uint64_t length_bytes, stored_bytes, checksum, parent_hash;
    int64_t expires_at_ms, pin_left_ms;
    uint32_t generation, hits, leases, idle_s;
    uint32_t frequency; /* as the policy counts reads, else the hits, up to 255 */
    uint8_t value_class, flags, pin_kind, state, tenant;
    bool is_integer; /* its text is that of an integer of 64 bits */
};

struct op {
    uint8_t kind; /* enum op_kind */
    uint8_t database;
    union {
        uint8_t expire_rule; /* EXPIRE */
        uint8_t combine;     /* SET_FROM: enum op_combine */
    };
    uint8_t pin_kind;
    uint32_t flags;
    enum kvasir_status status; /* result: see each kind in shard.h */
    uint8_t tenant;            /* of the user who asks; 0: the key says whose the value is */
    struct slice key;
    uint64_t hash; /* op_hash(database, key) */
    union {
        struct slice payload;   /* SET, APPEND, SET_RANGE */
        struct op_stat *stat_p; /* STAT: borrowed, filled on KVASIR_OK */
        struct {                /* FIELDS: borrowed */
            struct op_field *fields;
            uint32_t field_count;
        };
        struct { /* SET_FROM: borrowed, and a pin on each until the op is done; NULL: of no bytes */
            struct value *const *sources;
            uint32_t source_count;
        };
        const struct value *same; /* REMOVE with OP_REMOVE_SAME: the caller's pin keeps it */
    };
    union {
        struct op_put put;     /* SET, RESERVE, COMMIT, GRANT_RESERVE, SET_FROM */
        struct op_range range; /* BIT_COUNT, BIT_FIND */
        struct {               /* all others */
            int64_t expires_at_ms;
            int64_t delta;
            long double delta_float;
            uint64_t offset_bytes;
            uint32_t pin_ms;
        };
    };
    uint64_t owner;      /* connection id, for grants */
    uint64_t grant_id;   /* in or out */
    int64_t deadline_us; /* in: of the grant; out: what was given */
    struct value *value; /* in or out; who holds it holds one pin */
    struct value *old;   /* out, with OP_SET_RETURN_OLD; pinned */
    int64_t integer;     /* out */
    uint64_t done_bytes; /* of an op that takes several turns: how far it has come */
    uint32_t restarts;   /* how often it began anew, because the key changed meanwhile */
    uint8_t purpose;     /* enum op_purpose */
    bool carried;        /* it was ended on behalf of another op: executed again it only says so */
};

/* Hash of a key in a database: XXH3-64, seeded. Clients choose keys: who knows the seed can choose them so
 * that all are in one chain of an index, so it is drawn anew for each process and told to nobody. */
uint64_t op_hash(uint64_t seed, uint8_t database, struct slice key);

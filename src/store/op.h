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
    OP_PIN,       /* pin_kind, pin_ms */
    OP_UNPIN,
    OP_STAT, /* everything: stat */
};

/* Flags of OP_SET, OP_COMMIT, OP_RESERVE and OP_GRANT_RESERVE. */
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

enum op_expire_rule {
    OP_EXPIRE_ALWAYS,
    OP_EXPIRE_NX,
    OP_EXPIRE_XX,
    OP_EXPIRE_GT,
    OP_EXPIRE_LT
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
};

struct op_stat {
    uint64_t length_bytes, stored_bytes, checksum, parent_hash;
    int64_t expires_at_ms, pin_left_ms;
    uint32_t generation, hits, leases, idle_s;
    uint8_t value_class, flags, pin_kind, state;
};

struct op {
    uint8_t kind; /* enum op_kind */
    uint8_t database;
    uint8_t expire_rule;
    uint8_t pin_kind;
    uint32_t flags;
    enum kvasir_status status; /* result: see each kind in shard.h */
    struct slice key;
    uint64_t hash; /* op_hash(database, key) */
    union {
        struct slice payload;   /* SET, APPEND, SET_RANGE */
        struct op_stat *stat_p; /* STAT: borrowed, filled on KVASIR_OK */
    };
    union {
        struct op_put put; /* SET, RESERVE, COMMIT, GRANT_RESERVE */
        struct {           /* all others */
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
};

/* Hash of a key in a database: XXH3-64 with the database number as its seed. */
uint64_t op_hash(uint8_t database, struct slice key);

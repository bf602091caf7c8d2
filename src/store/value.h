#pragma once
/* value – one stored value: a key, where its bytes lie, and everything known about it. Lives in the
 * metadata memory of its shard, key bytes right behind the fields. Owned by the shard's index
 * while it is the key's current value (sealed), by nobody but its pins while an orphan, and by its
 * reservation before that. Only the shard's thread writes it; a thread that was handed a pin may
 * read key, length, layout and checksum until it hands the pin back. */

#include "base/slice.h"
#include "mem/layout.h"

#include <kvasir/client.h>

#include <stddef.h>
#include <stdint.h>

enum value_state {
    VALUE_RESERVED, /* has memory, is being filled; next: SEALED or freed */
    VALUE_SEALED,   /* immutable, found by its key; next: ORPHAN or freed */
    VALUE_ORPHAN,   /* overwritten, deleted or expired; freed when the last pin goes */
};

/* Why a sealed value is out of the eviction order. Asked for a victim, a policy may name a value that
 * cannot go now; it is set aside, so that nobody looks at it again before that changes. */
enum value_parked {
    VALUE_PARKED_NOT,  /* in the policy's hands */
    VALUE_PARKED_HELD, /* has pins or a hard pin; goes back to the policy when the last one ends */
    VALUE_PARKED_SOFT, /* soft-pinned; in the shard's list of those that go last */
};

enum value_pin {
    VALUE_PIN_NONE,
    VALUE_PIN_SOFT,
    VALUE_PIN_HARD
};

#define VALUE_FLAG_CHECKSUM 1U /* checksum holds XXH3-64 of the raw bytes */
#define VALUE_FLAG_PARENT   2U /* parent_hash names a parent */

/* Values point at each other by their distance, in units of their alignment: half as long as a
 * pointer, and no base is needed. So metadata memory is at most this long. 0 points at nothing. */
#define VALUE_ALIGN_BYTES      16
#define VALUE_MEMORY_BYTES_MAX ((uint64_t)VALUE_ALIGN_BYTES << 31)

struct value {
    /* op_hash */
    _Alignas(VALUE_ALIGN_BYTES) uint64_t hash;
    uint64_t length_bytes; /* raw length */
    uint64_t checksum;
    uint64_t parent_hash;
    int64_t expires_at_ms; /* Unix time; 0: never */
    int32_t chain;         /* link: next of the same index bucket */
    int32_t policy_next;   /* link: eviction order; the policy's own */
    int32_t policy_prev;
    struct layout layout; /* 28 bytes */
    union {
        uint32_t pinned_until_ms; /* VALUE_PIN_SOFT: of the shard's own clock, which wraps */
        uint32_t pin_slot;        /* VALUE_PIN_HARD: the grant that holds it and its deadline */
    };
    uint32_t pins;            /* sends, fills and leases that still need the bytes */
    uint32_t generation : 26; /* of the key, grows at each overwrite */
    uint32_t lent : 1;        /* was handed out to be lent (OP_READ_LENT), and may be so still */
    uint32_t tenant : 5;      /* row of the tenant whose quota it counts against; 0: none */
    uint32_t touched_s;       /* shard clock in seconds at the last access (OBJECT IDLETIME) */
    uint32_t policy_stamp;    /* the policy's own: when it was last read, by the policy's clock */
    uint16_t key_length_bytes;
    uint16_t hits;  /* saturates */
    uint16_t holds; /* leases, and one for a hard pin: never evicted while there are any */
    uint16_t epoch; /* of its database when it was sealed; older ones were flushed */
    uint8_t database;
    uint8_t state : 2;       /* enum value_state */
    uint8_t pin_kind : 2;    /* enum value_pin */
    uint8_t value_class : 2; /* enum kvasir_class */
    uint8_t parked : 2;      /* enum value_parked */
    uint8_t : 0; /* what follows is read by other cores while the owner writes what stands above */
    uint8_t flags : 4;
    uint8_t cost : 4; /* of recomputing it, for its length, by powers of two; 0: nothing is said */
    uint8_t policy_bits; /* the policy's own; the last field: the key follows at once */
};
/* Beside these, a value costs 4 to 8 bytes of index and 4 of the table that finds the owner of a
 * run: 120 bytes in all are promised. */
#define VALUE_FIELDS_BYTES (offsetof(struct value, policy_bits) + 1)
_Static_assert(VALUE_FIELDS_BYTES <= 112, "metadata per value is a promise");

#define VALUE_KEY_BYTES_MAX 65000U

/* Generations go round. */
#define VALUE_GENERATION_MAX ((1U << 26) - 1)

static inline struct slice value_key(const struct value *value)
{
    return slice_of((const uint8_t *)value + VALUE_FIELDS_BYTES, value->key_length_bytes);
}

/* Memory that a value takes with its key. */
static inline size_t value_bytes(size_t key_length_bytes)
{
    return VALUE_FIELDS_BYTES + key_length_bytes;
}

/* What a link of this value points at; NULL for none. */
static inline struct value *value_follow(const struct value *value, int32_t link)
{
    uintptr_t distance = (uintptr_t)((intptr_t)link * VALUE_ALIGN_BYTES);
    return link == 0 ? NULL : (struct value *)((uintptr_t)value + distance);
}

/* The link that leads from a value to another (NULL: to none). */
static inline int32_t value_link(const struct value *from, const struct value *to)
{
    intptr_t distance = (intptr_t)((uintptr_t)to - (uintptr_t)from);
    return to == NULL ? 0 : (int32_t)(distance / VALUE_ALIGN_BYTES);
}

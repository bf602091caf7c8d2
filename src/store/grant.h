#pragma once
/* grant – what somebody holds for a time under a number: leases, reservations and hard pins. A fixed
 * table of slots, which takes memory as they are used; one shard's thread. Owns the slots, borrows the
 * values: what the end of a grant means for its value is the shard's business.
 *
 * An id is generation | shard | slot. A slot's generation grows with each use and slots are used in
 * turn, so that a number once ended is not accepted again, and the owner must match besides. */

#include "base/compiler.h"
#include "base/heap.h"
#include "base/list.h"

#include <kvasir/types.h>

#include <stdbool.h>
#include <stdint.h>

struct value;

#define GRANT_SLOT_BITS       24U
#define GRANT_SHARD_BITS      12U
#define GRANT_GENERATION_BITS 27U /* ids are positive as signed numbers, too */
/* What the shard itself holds (hard pins): never the id of a connection. */
#define GRANT_OWNER_SHARD UINT64_MAX

enum grant_kind {
    GRANT_FREE,
    GRANT_LEASE,       /* a reader's; holds a pin */
    GRANT_RESERVATION, /* a writer's; holds the only pin of a reserved value */
    GRANT_HARD_PIN,    /* the shard's; holds no pin, ends with the value's place in the index */
    GRANT_KIND_COUNT,
};

struct grant {
    struct heap_member timer;
    struct list same_owner; /* hash chain of owners */
    struct value *value;    /* borrowed */
    uint64_t owner;
    uint32_t generation;
    uint32_t flags;  /* of a reservation: OP_SET_… */
    uint32_t pin_ms; /* of a reservation: the pin asked for */
    uint32_t next_free;
    uint8_t pin_kind; /* of a reservation */
    uint8_t kind;     /* enum grant_kind */
    bool expired;     /* the last use ended by time */
};

struct grant_table {
    struct grant *slots;          /* owned */
    struct list *owners;          /* owned; heads, owner_mask + 1 of them */
    struct heap_member **members; /* owned; of timers */
    struct heap timers;
    uint64_t owner_mask;
    uint64_t seed;
    uint32_t slot_count;
    uint32_t used_count; /* those behind were never used, and have no memory yet */
    uint32_t shard;
    uint32_t free_first, free_last; /* used in turn */
    uint32_t counts[GRANT_KIND_COUNT];
};

/* Memory of a table for each of its slots: with its place in the heap and among the owners. */
#define GRANT_BYTES (sizeof(struct grant) + sizeof(void *) + sizeof(struct list) / 2)

/* seed makes the ids of one life of the server differ from those of the next. False: no address space. */
ATTR_MUST_USE bool grant_init(struct grant_table *table, uint32_t slot_count, uint32_t shard,
                              uint64_t seed);
void grant_fini(struct grant_table *table);
/* Memory that the slots take now, with what goes with them. */
uint64_t grant_bytes(const struct grant_table *table);

/* NULL: every slot is in use. */
struct grant *grant_open(struct grant_table *table, enum grant_kind kind, struct value *value,
                         uint64_t owner, int64_t deadline_us);
/* NULL: no such grant of that kind and owner; *expired_p says whether there was one, the slot's last,
 * that ended by time. */
struct grant *grant_find(struct grant_table *table, uint64_t id, enum grant_kind kind,
                         uint64_t owner, bool *expired_p);
/* Frees the slot; sets *grant_p to NULL. */
void grant_close(struct grant_table *table, struct grant **grant_p, bool expired);

void grant_move(struct grant_table *table, struct grant *grant, int64_t deadline_us);

uint64_t grant_id(const struct grant_table *table, const struct grant *grant);
uint32_t grant_slot(const struct grant_table *table, const struct grant *grant);
/* Some grant whose deadline is not later than now_us; NULL when there is none. */
struct grant *grant_find_expired(const struct grant_table *table, int64_t now_us);
/* Some grant of the owner; NULL when there is none. */
struct grant *grant_find_owned(const struct grant_table *table, uint64_t owner);

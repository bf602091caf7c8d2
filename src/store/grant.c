#include "store/grant.h"

#include "base/check.h"
#include "base/fault.h"
#include "mem/table.h"

#define GRANT_NO_SLOT         UINT32_MAX
#define GRANT_GENERATION_MASK ((1U << GRANT_GENERATION_BITS) - 1)
#define GRANT_OWNERS_PER_HEAD 4U
#define GRANT_HEADS_MIN       64U
/* So many slots are used in turn at least, so that a number comes again late. */
#define GRANT_SLOTS_IN_TURN 1024U

static uint64_t grant_mix(uint64_t number)
{
    number *= 0x9e3779b97f4a7c15U;
    return number ^ (number >> 29);
}

static void grant_push_free(struct grant_table *table, uint32_t slot)
{
    table->slots[slot].next_free = GRANT_NO_SLOT;
    if (table->free_first == GRANT_NO_SLOT) {
        table->free_first = slot;
    } else {
        table->slots[table->free_last].next_free = slot;
    }
    table->free_last = slot;
}

/* A slot for the first time, or NULL. */
static struct grant *grant_take_fresh(struct grant_table *table)
{
    if (table->used_count == table->slot_count) {
        return NULL;
    }
    uint32_t slot = table->used_count++;
    struct grant *grant = &table->slots[slot];
    grant->generation = (uint32_t)grant_mix(table->seed + slot) & GRANT_GENERATION_MASK;
    grant->timer.place = HEAP_NONE;
    list_init(&grant->same_owner);
    return grant;
}

static struct grant *grant_take_free(struct grant_table *table)
{
    if (table->free_first == GRANT_NO_SLOT) {
        return NULL;
    }
    struct grant *grant = &table->slots[table->free_first];
    table->free_first = grant->next_free;
    return grant;
}

static struct grant *grant_take_slot(struct grant_table *table)
{
    bool enough = table->used_count >= GRANT_SLOTS_IN_TURN;
    struct grant *grant = enough ? grant_take_free(table) : grant_take_fresh(table);
    if (grant == NULL) {
        grant = enough ? grant_take_fresh(table) : grant_take_free(table);
    }
    return grant;
}

/* Where an owner's grants are chained; heads are zero until they are used. */
static struct list *grant_head(const struct grant_table *table, uint64_t owner)
{
    return &table->owners[grant_mix(owner) & table->owner_mask];
}

bool grant_init(struct grant_table *table, uint32_t slot_count, uint32_t shard, uint64_t seed)
{
    check(slot_count > 0 && slot_count <= 1U << GRANT_SLOT_BITS);
    check(shard < 1U << GRANT_SHARD_BITS);
    uint64_t head_count = GRANT_HEADS_MIN;
    while (head_count * GRANT_OWNERS_PER_HEAD < slot_count) {
        head_count *= 2;
    }
    *table = (struct grant_table){
        .owner_mask = head_count - 1,
        .seed = seed,
        .slot_count = slot_count,
        .shard = shard,
        .free_first = GRANT_NO_SLOT,
    };
    table->slots =
        fault_hit("store.grant") ? NULL : table_create(slot_count * sizeof(*table->slots));
    table->owners =
        fault_hit("store.grant") ? NULL : table_create(head_count * sizeof(*table->owners));
    table->members =
        fault_hit("store.grant") ? NULL : table_create(slot_count * sizeof(struct heap_member *));
    if (table->slots == NULL || table->owners == NULL || table->members == NULL) {
        grant_fini(table);
        return false;
    }
    heap_init(&table->timers, table->members, slot_count);
    return true;
}

void grant_fini(struct grant_table *table)
{
    void *slots = table->slots;
    void *owners = table->owners;
    void *members = table->members;
    table_destroy(&slots, table->slot_count * sizeof(*table->slots));
    table_destroy(&owners, (table->owner_mask + 1) * sizeof(*table->owners));
    table_destroy(&members, table->slot_count * sizeof(struct heap_member *));
    table->slots = NULL;
    table->owners = NULL;
    table->members = NULL;
}

uint64_t grant_bytes(const struct grant_table *table)
{
    return table->used_count * GRANT_BYTES;
}

struct grant *grant_open(struct grant_table *table, enum grant_kind kind, struct value *value,
                         uint64_t owner, int64_t deadline_us)
{
    struct grant *grant = grant_take_slot(table);
    struct list *head = grant_head(table, owner);
    if (grant == NULL) {
        return NULL;
    }
    if (head->next == NULL) {
        list_init(head);
    }
    grant->generation = (grant->generation + 1) & GRANT_GENERATION_MASK;
    if (grant->generation == 0) {
        grant->generation = 1; /* so that no id is 0 */
    }
    grant->kind = (uint8_t)kind;
    grant->value = value;
    grant->owner = owner;
    grant->flags = 0;
    grant->pin_ms = 0;
    grant->pin_kind = 0;
    grant->expired = false;
    grant->timer.deadline_us = deadline_us;
    check(heap_push(&table->timers, &grant->timer));
    list_push_back(head, &grant->same_owner);
    table->counts[kind]++;
    return grant;
}

struct grant *grant_find(struct grant_table *table, uint64_t id, enum grant_kind kind,
                         uint64_t owner, bool *expired_p)
{
    *expired_p = false;
    uint64_t slot = id & ((1U << GRANT_SLOT_BITS) - 1);
    uint64_t shard = (id >> GRANT_SLOT_BITS) & ((1U << GRANT_SHARD_BITS) - 1);
    uint64_t generation = id >> (GRANT_SLOT_BITS + GRANT_SHARD_BITS);
    if (slot >= table->used_count || shard != table->shard) {
        return NULL;
    }
    struct grant *grant = &table->slots[slot];
    if (grant->generation != generation || grant->owner != owner) {
        return NULL;
    }
    if (grant->kind == GRANT_FREE) {
        *expired_p = grant->expired;
        return NULL;
    }
    return grant->kind == kind ? grant : NULL;
}

void grant_close(struct grant_table *table, struct grant **grant_p, bool expired)
{
    struct grant *grant = *grant_p;
    check(grant->kind != GRANT_FREE);
    heap_remove(&table->timers, &grant->timer);
    list_remove(&grant->same_owner);
    table->counts[grant->kind]--;
    grant->kind = GRANT_FREE;
    grant->value = NULL;
    grant->expired = expired;
    grant_push_free(table, grant_slot(table, grant));
    *grant_p = NULL;
}

void grant_move(struct grant_table *table, struct grant *grant, int64_t deadline_us)
{
    heap_remove(&table->timers, &grant->timer);
    grant->timer.deadline_us = deadline_us;
    check(heap_push(&table->timers, &grant->timer));
}

uint64_t grant_id(const struct grant_table *table, const struct grant *grant)
{
    return (uint64_t)grant->generation << (GRANT_SLOT_BITS + GRANT_SHARD_BITS) |
           (uint64_t)table->shard << GRANT_SLOT_BITS | grant_slot(table, grant);
}

uint32_t grant_slot(const struct grant_table *table, const struct grant *grant)
{
    return (uint32_t)(grant - table->slots);
}

struct grant *grant_find_expired(const struct grant_table *table, int64_t now_us)
{
    struct heap_member *first = heap_find_first(&table->timers);
    return first != NULL && first->deadline_us <= now_us ? list_entry(first, struct grant, timer)
                                                         : NULL;
}

struct grant *grant_find_owned(const struct grant_table *table, uint64_t owner)
{
    const struct list *head = grant_head(table, owner);
    if (head->next == NULL) {
        return NULL;
    }
    list_foreach (member, head) {
        struct grant *grant = list_entry(member, struct grant, same_owner);
        if (grant->owner == owner) {
            return grant;
        }
    }
    return NULL;
}

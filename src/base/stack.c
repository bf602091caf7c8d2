#include "base/stack.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Ends of the chain and marks of what is not in it; both are above any number. */
#define NEXT_NONE    UINT32_MAX
#define NEXT_OUTSIDE (UINT32_MAX - 1)

struct stack {
    ATTR_ALIGNED(CACHE_LINE_BYTES) _Atomic uint64_t head; /* tag above, number below */
    _Atomic uint32_t member_count;
    uint32_t limit;
    _Atomic uint32_t *next; /* owned; next[n] is n's successor, NEXT_NONE or NEXT_OUTSIDE */
};

static uint64_t pack(uint32_t tag, uint32_t number)
{
    return (uint64_t)tag << 32 | number;
}

struct stack *stack_create(uint32_t count)
{
    check(count < NEXT_OUTSIDE);
    struct stack *stack = aligned_alloc(CACHE_LINE_BYTES, sizeof(*stack));
    if (stack == NULL) {
        return NULL;
    }
    *stack = (struct stack){.head = pack(0, NEXT_NONE), .limit = count};
    stack->next = calloc(count > 0 ? count : 1, sizeof(*stack->next));
    if (stack->next == NULL) {
        free(stack);
        return NULL;
    }
    for (uint32_t n = 0; n < count; n++) {
        atomic_init(&stack->next[n], NEXT_OUTSIDE);
    }
    return stack;
}

void stack_destroy(struct stack **stack_p)
{
    struct stack *stack = *stack_p;
    *stack_p = NULL;
    if (stack != NULL) {
        free(stack->next);
        free(stack);
    }
}

void stack_push(struct stack *stack, uint32_t number)
{
    check(number < stack->limit);
    /* A number pushed twice would be handed to two owners: worth one load in release too. */
    check(atomic_load_explicit(&stack->next[number], memory_order_relaxed) == NEXT_OUTSIDE);
    /* Counted before it can be popped, so that the count never falls below zero. */
    atomic_fetch_add_explicit(&stack->member_count, 1, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&stack->head, memory_order_relaxed);
    uint64_t wanted;
    do {
        atomic_store_explicit(&stack->next[number], (uint32_t)head, memory_order_relaxed);
        wanted = pack((uint32_t)(head >> 32), number);
    } while (!atomic_compare_exchange_weak_explicit(&stack->head, &head, wanted,
                                                    memory_order_release, memory_order_relaxed));
}

bool stack_pop(struct stack *stack, uint32_t *number_p)
{
    uint64_t head = atomic_load_explicit(&stack->head, memory_order_acquire);
    uint32_t number;
    uint64_t wanted;
    do {
        number = (uint32_t)head;
        if (number == NEXT_NONE) {
            return false;
        }
        /* May be stale when another core took the number meanwhile; then the tag has moved on and
         * the exchange below fails. */
        uint32_t next = atomic_load_explicit(&stack->next[number], memory_order_relaxed);
        wanted = pack((uint32_t)(head >> 32) + 1, next);
    } while (!atomic_compare_exchange_weak_explicit(&stack->head, &head, wanted,
                                                    memory_order_acq_rel, memory_order_acquire));
    atomic_store_explicit(&stack->next[number], NEXT_OUTSIDE, memory_order_relaxed);
    atomic_fetch_sub_explicit(&stack->member_count, 1, memory_order_relaxed);
    *number_p = number;
    return true;
}

uint32_t stack_count(const struct stack *stack)
{
    return atomic_load_explicit(&stack->member_count, memory_order_relaxed);
}

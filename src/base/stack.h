#pragma once
/* stack – bounded lock-free stack of the numbers 0 … count-1, shared by all cores: the free list of
 * the common page pool. Any thread; a number is in the stack at most once (checked in debug). The
 * head carries a tag that grows with each pop, so that a slow core cannot be fooled by a number that
 * left and came back (ABA). Treiber, "Systems Programming: Coping with Parallelism", IBM RJ 5118,
 * 1986. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

struct stack;

/* An empty stack for numbers below count. NULL when out of memory. */
struct stack *stack_create(uint32_t count);
void stack_destroy(struct stack **stack_p);

void stack_push(struct stack *stack, uint32_t number);
/* False: empty. */
ATTR_MUST_USE bool stack_pop(struct stack *stack, uint32_t *number_p);
/* How many are in it; exact only while nobody pushes or pops. */
uint32_t stack_count(const struct stack *stack);

#pragma once
/* table – a long array of zeroes in address space of its own, which takes memory as it is touched, in
 * small pages: a huge one is cleared in one go, and whoever touched it first would wait for that. Any
 * thread; the caller owns it. */

#include <stddef.h>

/* NULL: the address space is refused. */
void *table_create(size_t size_bytes);
/* The same size. Sets *table_p to NULL; NULL in is fine. */
void table_destroy(void **table_p, size_t size_bytes);

#include "mem/table.h"

#include "base/check.h"

#include <sys/mman.h>

void *table_create(size_t size_bytes)
{
    void *table = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        return NULL;
    }
    /* A kernel without huge pages refuses and has small ones anyway. */
    (void)madvise(table, size_bytes, MADV_NOHUGEPAGE);
    return table;
}

void table_destroy(void **table_p, size_t size_bytes)
{
    if (*table_p != NULL) {
        check(munmap(*table_p, size_bytes) == 0);
        *table_p = NULL;
    }
}

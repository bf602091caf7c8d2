#include "fault_memory.h"

#include "base/fault.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static int64_t block_count;

/* The linker puts these before the library's (--wrap). The names are its choice. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_mmap(void *address, size_t bytes, int rights, int flags, int descriptor, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int rights, int flags, int descriptor, off_t offset);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);

static void *counted(void *memory)
{
    block_count += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return fault_hit("malloc") ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fault_hit("calloc") ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    if (fault_hit("realloc")) {
        return NULL;
    }
    void *moved = __real_realloc(memory, bytes);
    return memory == NULL ? counted(moved) : moved;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return fault_hit("aligned_alloc") ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text)
{
    return fault_hit("strdup") ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    block_count -= memory != NULL;
    __real_free(memory);
}

void *__wrap_mmap(void *address, size_t bytes, int rights, int flags, int descriptor, off_t offset)
{
    if (fault_hit("mmap")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return __real_mmap(address, bytes, rights, flags, descriptor, offset);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (fault_hit("memfd_create")) {
        errno = EMFILE;
        return -1;
    }
    return __real_memfd_create(name, flags);
}

int __wrap_eventfd(unsigned count, int flags)
{
    if (fault_hit("eventfd")) {
        errno = EMFILE;
        return -1;
    }
    return __real_eventfd(count, flags);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

int64_t fault_memory_block_count(void)
{
    return block_count;
}

uint32_t fault_memory_descriptor_count(void)
{
    uint32_t count = 0;
    DIR *stream = opendir("/proc/self/fd");
    if (stream == NULL) {
        return 0;
    }
    while (readdir(stream) != NULL) {
        count++;
    }
    (void)closedir(stream);
    return count;
}

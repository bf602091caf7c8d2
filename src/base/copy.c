#include "base/copy.h"

#include <string.h>

static _Thread_local uint64_t copied_bytes;

void copy_payload(void *to, const void *from, size_t length_bytes)
{
    copied_bytes += length_bytes;
    memcpy(to, from, length_bytes);
}

uint64_t copy_payload_bytes(void)
{
    return copied_bytes;
}

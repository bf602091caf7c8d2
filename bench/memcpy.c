/* memcpy – how fast copy_payload moves bytes against memcpy, from cold to cold memory (each copy goes
 * on where the last one ended) and between two warm buffers. It backs COPY_STREAM_BYTES_MIN.
 * Usage: memcpy [MiB of each area] */

#include "base/check.h"
#include "base/clock.h"
#include "base/copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROUND_COUNT 3

typedef void copy_fn(void *to, const void *from, size_t length_bytes);

static void copy_plain(void *to, const void *from, size_t length_bytes)
{
    memcpy(to, from, length_bytes);
}

static char *map_area(size_t area_bytes)
{
    void *area = mmap(NULL, area_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(area != MAP_FAILED);
    memset(area, 1, area_bytes);
    return area;
}

/* GB/s, the best of some rounds. step_bytes is 0 for warm buffers. */
static double measure(copy_fn *copy, char *to, const char *from, size_t area_bytes,
                      size_t length_bytes, size_t step_bytes)
{
    double best = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        int64_t start_us = clock_mono_us();
        size_t copy_count = area_bytes / length_bytes;
        for (size_t i = 0; i < copy_count; i++) {
            copy(to + i * step_bytes, from + i * step_bytes, length_bytes);
        }
        double speed =
            (double)(copy_count * length_bytes) / 1e3 / (double)(clock_mono_us() - start_us);
        best = speed > best ? speed : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    size_t area_bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 256) << 20;
    if (area_bytes < 64U << 20) {
        (void)fprintf(stderr, "memcpy: the area must be at least 64 MiB\n");
        return 2;
    }
    char *to = map_area(area_bytes);
    char *from = map_area(area_bytes);
    (void)printf("%10s %14s %14s %14s %14s  (GB/s)\n", "bytes", "memcpy cold", "payload cold",
                 "memcpy warm", "payload warm");
    for (size_t length = 64U << 10; length <= 64U << 20; length *= 2) {
        (void)printf("%10zu %14.1f %14.1f %14.1f %14.1f\n", length,
                     measure(copy_plain, to, from, area_bytes, length, length),
                     measure(copy_payload, to, from, area_bytes, length, length),
                     measure(copy_plain, to, from, area_bytes, length, 0),
                     measure(copy_payload, to, from, area_bytes, length, 0));
    }
    (void)munmap(to, area_bytes);
    (void)munmap(from, area_bytes);
    return 0;
}

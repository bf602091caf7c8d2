#pragma once
/* measure – what the benchmark programs share: time, medians, warm memory, coded contents, option
 * texts, JSON lines. One copy per program (every bench is one source file), any thread. */

#include "base/compiler.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define MEASURE_SIZES_MAX    16
#define MEASURE_MIB          (UINT64_C(1) << 20)
#define MEASURE_HUGE_BYTES   (UINT64_C(2) << 20)
#define MEASURE_ROUNDS_MAX   1000
#define MEASURE_GROW_SAMPLES 4096

/* Ends the program: a benchmark that cannot go on has nothing to clean up but its sockets. */
ATTR_UNUSED ATTR_NORETURN ATTR_PRINTF(1, 2) static void measure_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    exit(1);
}

ATTR_UNUSED static size_t measure_clamp(uint64_t number, size_t least, size_t most)
{
    size_t low = number > least ? (size_t)number : least;
    return low < most ? low : most;
}

/* Seconds that passed since some fixed moment. */
ATTR_UNUSED static double measure_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- samples ------------------------------------------------------------------------------- */

struct measure_samples {
    double *values; /* owned */
    size_t count;
    size_t capacity;
};

ATTR_UNUSED static void measure_add(struct measure_samples *samples, double value)
{
    if (samples->count == samples->capacity) {
        samples->capacity = samples->capacity > 0 ? 2 * samples->capacity : MEASURE_GROW_SAMPLES;
        samples->values = realloc(samples->values, samples->capacity * sizeof(double));
        if (samples->values == NULL) {
            measure_die("no memory for %zu samples", samples->capacity);
        }
    }
    samples->values[samples->count++] = value;
}

ATTR_UNUSED static int measure_compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The value below which `part` (0 to 1) of the samples lie; 0 when there are none. Sorts. */
ATTR_UNUSED static double measure_quantile(struct measure_samples *samples, double part)
{
    if (samples->count == 0) {
        return 0;
    }
    qsort(samples->values, samples->count, sizeof(double), measure_compare);
    size_t index = (size_t)(part * (double)samples->count);
    return samples->values[index < samples->count ? index : samples->count - 1];
}

ATTR_UNUSED static void measure_clear(struct measure_samples *samples)
{
    samples->count = 0;
}

/* ---- memory and contents -------------------------------------------------------------------- */

/* Memory that is mapped, written once and asks for huge pages, as the buffers of an engine are;
 * never unmapped. */
ATTR_UNUSED static uint8_t *measure_arena(size_t length_bytes)
{
    size_t rounded = (length_bytes + MEASURE_HUGE_BYTES - 1) & ~(size_t)(MEASURE_HUGE_BYTES - 1);
    size_t mapped = rounded + MEASURE_HUGE_BYTES;
    uint8_t *memory =
        mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        measure_die("cannot map %zu bytes: %s", length_bytes, strerror(errno));
    }
    uintptr_t skew = (uintptr_t)memory & (MEASURE_HUGE_BYTES - 1);
    uint8_t *aligned = skew == 0 ? memory : memory + (MEASURE_HUGE_BYTES - skew);
    (void)madvise(aligned, rounded, MADV_HUGEPAGE);
    memset(aligned, 1, rounded);
    return aligned;
}

/* Contents that tell both their seed and their position: a block that is another's, shifted or torn
 * cannot pass. Cheap enough to vectorise, so that coding does not outweigh what is measured. */
static inline uint64_t measure_word(uint64_t seed, size_t index)
{
    return (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) +
           (uint64_t)index * UINT64_C(0xc2b2ae3d27d4eb4f);
}

ATTR_UNUSED static void measure_fill(void *buffer, size_t length_bytes, uint64_t seed)
{
    uint8_t *bytes = buffer;
    size_t words = length_bytes / sizeof(uint64_t);
    for (size_t i = 0; i < words; i++) {
        uint64_t word = measure_word(seed, i);
        memcpy(bytes + i * sizeof(word), &word, sizeof(word));
    }
    uint64_t last = measure_word(seed, words);
    memcpy(bytes + words * sizeof(last), &last, length_bytes % sizeof(last));
}

/* True when measure_fill(length_bytes, seed) would write what lies there; `from` is the offset of
 * buffer in the value and a multiple of 8, for values that come in pieces. */
ATTR_UNUSED static bool measure_holds(const void *buffer, size_t length_bytes, uint64_t seed,
                                      size_t from)
{
    const uint8_t *bytes = buffer;
    size_t words = length_bytes / sizeof(uint64_t);
    size_t first = from / sizeof(uint64_t);
    uint64_t difference = 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * sizeof(word), sizeof(word));
        difference |= word ^ measure_word(seed, first + i);
    }
    uint64_t last = measure_word(seed, first + words);
    return difference == 0 &&
           memcmp(bytes + words * sizeof(last), &last, length_bytes % sizeof(last)) == 0;
}

/* ---- options -------------------------------------------------------------------------------- */

/* A number with an optional k, m or g (powers of 1024). Ends the program on anything else. */
ATTR_UNUSED static uint64_t measure_parse_number(const char *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    static const char UNITS[] = "kmg";
    const char *unit = *end != '\0' ? strchr(UNITS, *end | ' ') : NULL;
    unsigned shift = unit != NULL ? 10U * (unsigned)(unit - UNITS + 1) : 0;
    end += unit != NULL ? 1 : 0;
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' ||
        number > UINT64_MAX >> shift) {
        measure_die("%s takes a number with an optional k, m or g, not '%s'", option, text);
    }
    return number << shift;
}

/* Numbers parted by commas; returns how many. */
ATTR_UNUSED static size_t measure_parse_list(const char *option, const char *text,
                                             uint64_t numbers[MEASURE_SIZES_MAX])
{
    char copy[256];
    if (strlen(text) >= sizeof(copy)) {
        measure_die("%s: the list is too long", option);
    }
    memcpy(copy, text, strlen(text) + 1);
    size_t count = 0;
    char *rest = NULL;
    for (char *part = strtok_r(copy, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
        if (count == MEASURE_SIZES_MAX) {
            measure_die("%s takes at most %d numbers", option, MEASURE_SIZES_MAX);
        }
        numbers[count++] = measure_parse_number(option, part);
    }
    return count;
}

/* ---- output --------------------------------------------------------------------------------- */

/* One line of results: rate samples in bytes per second become their median in GB/s. */
ATTR_UNUSED static void measure_print_rate(const char *peer, const char *path,
                                           const char *operation, uint64_t size_bytes,
                                           struct measure_samples *rates)
{
    double median = measure_quantile(rates, 0.5);
    double least = measure_quantile(rates, 0);
    double most = measure_quantile(rates, 1);
    (void)printf("{\"peer\":\"%s\",\"path\":\"%s\",\"op\":\"%s\",\"size\":%llu,\"gbps\":%.4f,"
                 "\"gbps_min\":%.4f,\"gbps_max\":%.4f,\"rounds\":%zu}\n",
                 peer, path, operation, (unsigned long long)size_bytes, median * 1e-9, least * 1e-9,
                 most * 1e-9, rates->count);
    (void)fflush(stdout);
}

/* One line of results: time samples in seconds become p50 and p99 in microseconds. */
ATTR_UNUSED static void measure_print_latency(const char *peer, const char *path,
                                              const char *operation, uint64_t size_bytes,
                                              struct measure_samples *times)
{
    double median = measure_quantile(times, 0.5);
    double high = measure_quantile(times, 0.99);
    (void)printf("{\"peer\":\"%s\",\"path\":\"%s\",\"op\":\"%s\",\"size\":%llu,\"p50_us\":%.3f,"
                 "\"p99_us\":%.3f,\"calls\":%zu}\n",
                 peer, path, operation, (unsigned long long)size_bytes, median * 1e6, high * 1e6,
                 times->count);
    (void)fflush(stdout);
}

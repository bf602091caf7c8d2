/* parse – what reading a pipelined request costs: small GET and SET, one buffer, one core. Prints
 * nanoseconds a request, the median of several rounds. */
#include "measure.h"

#include "proto/request_reader.h"

#define PIPELINE 24
#define ROUNDS   15
#define REPEATS  20000

static const struct reader_limits LIMITS = {
    .args_max = 1024 * 1024, .bulk_bytes_max = 512ULL << 20, .inline_bytes_max = 64U << 10};

static double parse_ns(uint8_t *data, size_t length_bytes)
{
    struct request_reader reader;
    request_reader_init(&reader);
    struct slice args[64];
    double start = measure_now();
    uint64_t count = 0;
    for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
        size_t at = 0;
        size_t consumed = 0;
        while (request_reader_advance(&reader, data + at, length_bytes - at, &LIMITS, args, 64,
                                      &consumed) == READER_REQUEST) {
            at += consumed;
            count++;
        }
    }
    if (count != (uint64_t)REPEATS * PIPELINE) {
        measure_die("read %llu requests", (unsigned long long)count);
    }
    return (measure_now() - start) * 1e9 / (double)count;
}

int main(void)
{
    static const char *const requests[] = {
        "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000012\r\n",
        ("*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000012\r\n$64\r\n"
         "0123456789012345678901234567890123456789012345678901234567890123\r\n"),
        "PING\r\n",
    };
    for (size_t kind = 0; kind < ARRAY_COUNT(requests); kind++) {
        uint8_t data[PIPELINE * 112];
        size_t length = strlen(requests[kind]);
        for (size_t i = 0; i < PIPELINE; i++) {
            memcpy(data + i * length, requests[kind], length);
        }
        struct measure_samples samples = {0};
        for (uint32_t round = 0; round < ROUNDS; round++) {
            measure_add(&samples, parse_ns(data, PIPELINE * length));
        }
        printf("parse %.4s %5.1f ns\n", requests[kind] + (kind < 2 ? 8 : 0),
               measure_quantile(&samples, 0.5));
    }
    return 0;
}

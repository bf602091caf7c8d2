/* rle – a module for tests that does all a module has to: a codec that writes runs of bytes as pairs of
 * count and byte. */

#include <kvasir/module.h>

#include <string.h>

#define RUN_BYTES_MAX 255U

static enum kvasir_status rle_bound(void *state, size_t raw_bytes, size_t *bound_bytes_p)
{
    (void)state;
    if (raw_bytes > KVASIR_CODEC_BLOCK_BYTES_MAX) {
        return KVASIR_TOO_LARGE;
    }
    *bound_bytes_p = 2 * raw_bytes;
    return KVASIR_OK;
}

static enum kvasir_status rle_encode(void *state, const void *raw, size_t raw_bytes, void *coded,
                                     size_t capacity_bytes, size_t *coded_bytes_p)
{
    const uint8_t *from = raw;
    uint8_t *to = coded;
    size_t used = 0;
    size_t at = 0;
    (void)state;
    while (at < raw_bytes) {
        size_t run = 1;
        while (run < RUN_BYTES_MAX && at + run < raw_bytes && from[at + run] == from[at]) {
            run++;
        }
        if (capacity_bytes - used < 2) {
            return KVASIR_TOO_SMALL;
        }
        to[used++] = (uint8_t)run;
        to[used++] = from[at];
        at += run;
    }
    *coded_bytes_p = used;
    return KVASIR_OK;
}

static enum kvasir_status rle_decode(void *state, const void *coded, size_t coded_bytes, void *raw,
                                     size_t raw_bytes)
{
    const uint8_t *from = coded;
    uint8_t *to = raw;
    size_t used = 0;
    (void)state;
    for (size_t at = 0; at < coded_bytes; at += 2) {
        if (coded_bytes - at < 2 || from[at] == 0 || from[at] > raw_bytes - used) {
            return KVASIR_CORRUPT;
        }
        memset(to + used, from[at + 1], from[at]);
        used += from[at];
    }
    return used == raw_bytes ? KVASIR_OK : KVASIR_CORRUPT;
}

static const struct kvasir_codec_ops OPS = {
    .struct_size = sizeof(OPS),
    .name = "rle",
    .bound = rle_bound,
    .encode = rle_encode,
    .decode = rle_decode,
};

static enum kvasir_status rle_setup(const struct kvasir_host *host, void **state_p)
{
    enum kvasir_status status = host->register_codec(host, &OPS, NULL);
    if (status == KVASIR_OK) {
        *state_p = NULL;
        host->log(host, KVASIR_LOG_INFO, "run lengths up to 255");
    }
    return status;
}

static void rle_teardown(void *state)
{
    (void)state;
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "rle",
    .summary = "run lengths of bytes, for tests",
    .version = KVASIR_MODULE_VERSION(1, 2, 3),
    .setup = rle_setup,
    .teardown = rle_teardown,
};

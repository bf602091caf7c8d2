/* view – reading a value where it lies in the server's memory, without a copy. This needs client and
 * server on one host; elsewhere the call says so and a plain get does the job.
 * Usage: view [ADDRESS] */

#include <kvasir/client.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    VALUE_BYTES = 5 << 20
};

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Adds up the bytes of a view, piece by piece. False: the lease ended before the sum was done. */
static int sum_view(const struct kvasir_view *view, uint64_t *sum_p)
{
    uint32_t count = 0;
    const struct iovec *segments = kvasir_view_segments(view, &count);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *bytes = segments[i].iov_base;
        for (size_t k = 0; k < segments[i].iov_len; k++) {
            sum += bytes[k];
        }
    }
    *sum_p = sum;
    (void)printf("%zu bytes in %u pieces\n", kvasir_view_length_bytes(view), count);
    /* Asked after reading: only then is it certain that these were the value's bytes. */
    return now_us() < kvasir_view_deadline_us(view);
}

static enum kvasir_status show(struct kvasir_client *client)
{
    uint8_t *value = malloc(VALUE_BYTES);
    if (value == NULL) {
        return KVASIR_NO_MEMORY;
    }
    memset(value, 3, VALUE_BYTES);
    enum kvasir_status status = kvasir_put(client, "view-me", 7, value, VALUE_BYTES, NULL, 0);
    free(value);
    if (status != KVASIR_OK) {
        return status;
    }
    struct kvasir_view *view = NULL;
    status = kvasir_get_view(client, "view-me", 7, &view, 0);
    if (status != KVASIR_OK) {
        return status;
    }
    uint64_t sum = 0;
    if (!sum_view(view, &sum)) {
        status = KVASIR_EXPIRED;
    } else if (sum != (uint64_t)3 * VALUE_BYTES) {
        status = KVASIR_CORRUPT;
    }
    /* Soon, so that the server may evict the value when it has to. */
    kvasir_view_release(&view);
    return status;
}

int main(int argc, char **argv)
{
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:6379";
    char error[256];
    struct kvasir_client *client = NULL;
    if (kvasir_connect(&options, error, sizeof error, &client) != KVASIR_OK) {
        (void)fprintf(stderr, "view: %s\n", error);
        return 1;
    }
    enum kvasir_status status = show(client);
    if (status == KVASIR_UNSUPPORTED) {
        (void)printf("%s\n", kvasir_error(client));
    } else if (status != KVASIR_OK) {
        (void)fprintf(stderr, "view: %s: %s\n", kvasir_status_name(status), kvasir_error(client));
    }
    kvasir_close(&client);
    return status == KVASIR_OK || status == KVASIR_UNSUPPORTED ? 0 : 1;
}

/* submit – storing blocks while the engine goes on computing: requests are handed over and their
 * outcome is collected when there is time.
 * Usage: submit [ADDRESS] */

#include <kvasir/client.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS = 64,
    BLOCK_BYTES = 256 << 10,
};

struct block {
    char key[32];
    struct kvasir_item item;
    uint8_t bytes[BLOCK_BYTES];
};

/* Collects one finished request; waits for it at most timeout_ms. */
static enum kvasir_status collect(struct kvasir_client *client, int timeout_ms, int *stored_p)
{
    struct kvasir_request *done = NULL;
    enum kvasir_status status = kvasir_poll(client, timeout_ms, &done);
    if (status != KVASIR_OK) {
        return status; /* KVASIR_AGAIN: nothing yet; KVASIR_NOT_FOUND: nothing in flight */
    }
    const struct block *block = kvasir_request_user_data(done);
    if (kvasir_request_status(done) == KVASIR_OK && block->item.status == KVASIR_OK) {
        (*stored_p)++;
    } else {
        (void)fprintf(stderr, "submit: %s was not stored: %s\n", block->key,
                      kvasir_status_name(block->item.status));
    }
    kvasir_request_free(client, &done);
    return KVASIR_OK;
}

static int store_all(struct kvasir_client *client, struct block *blocks)
{
    int stored = 0;
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = &blocks[i];
        (void)snprintf(block->key, sizeof block->key, "submit:%d", i);
        memset(block->bytes, i, BLOCK_BYTES); /* the engine computes */
        block->item = (struct kvasir_item){
            .key = block->key,
            .key_length_bytes = strlen(block->key),
            .segment = {.iov_base = block->bytes, .iov_len = BLOCK_BYTES},
        };
        /* The block belongs to the client until its request is done. */
        struct kvasir_submit_options options = {.user_data = block};
        struct kvasir_request *request = NULL;
        enum kvasir_status status;
        while ((status = kvasir_submit(client, KVASIR_CALL_PUT, &block->item, 1, &options,
                                       &request)) == KVASIR_AGAIN) {
            (void)collect(client, -1, &stored); /* too many in flight: make room */
        }
        if (status != KVASIR_PENDING) {
            (void)fprintf(stderr, "submit: %s\n", kvasir_status_name(status));
            break;
        }
        while (collect(client, 0, &stored) == KVASIR_OK) {
            /* whatever finished meanwhile */
        }
    }
    while (collect(client, -1, &stored) == KVASIR_OK) {
        /* the rest */
    }
    return stored;
}

int main(int argc, char **argv)
{
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:6379";
    char error[256];
    struct kvasir_client *client = NULL;
    if (kvasir_connect(&options, error, sizeof error, &client) != KVASIR_OK) {
        (void)fprintf(stderr, "submit: %s\n", error);
        return 1;
    }
    struct block *blocks = calloc(BLOCKS, sizeof *blocks);
    int stored = blocks == NULL ? 0 : store_all(client, blocks);
    (void)printf("%d of %d blocks stored by %s\n", stored, BLOCKS,
                 kvasir_path_name(kvasir_path(client)));
    kvasir_close(&client);
    free(blocks);
    return stored == BLOCKS ? 0 : 1;
}

/* batch – what an engine does with a prompt: store the KV blocks of a prefix as a chain, find out later
 * how much of a longer prompt is there already, and fetch that much in one call.
 * Usage: batch [ADDRESS] */

#include <kvasir/client.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STORED = 12,           /* blocks of the first prompt */
    WANTED = 20,           /* blocks of the second one, which begins the same way */
    BLOCK_BYTES = 1 << 20, /* keys and values of all layers for a few tokens */
};

/* Keys name model, layout and token prefix; here they are made up. */
static void set_items(struct kvasir_item *items, char (*keys)[32], uint8_t *blocks, int count)
{
    for (int i = 0; i < count; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "demo-model:prefix:%d", i);
        items[i] = (struct kvasir_item){
            .key = keys[i],
            .key_length_bytes = strlen(keys[i]),
            .segment = {.iov_base = blocks + (size_t)i * BLOCK_BYTES, .iov_len = BLOCK_BYTES},
        };
    }
}

static enum kvasir_status store(struct kvasir_client *client, uint8_t *blocks)
{
    static struct kvasir_item items[STORED];
    static char keys[STORED][32];
    set_items(items, keys, blocks, STORED);
    for (int i = 0; i < STORED; i++) {
        memset(items[i].segment.iov_base, 'a' + i, BLOCK_BYTES);
    }
    /* A block that is there already stays as it is, and by shared memory is not copied again; each block
     * names the one before it as its parent. */
    struct kvasir_put_options options = {.only_if_absent = true, .checksum = true, .chain = true};
    enum kvasir_status status = kvasir_put_batch(client, items, STORED, &options, 0);
    for (int i = 0; status == KVASIR_OK && i < STORED; i++) {
        if (items[i].status != KVASIR_OK && items[i].status != KVASIR_EXISTS) {
            status = items[i].status;
        }
    }
    return status;
}

static enum kvasir_status load(struct kvasir_client *client, uint8_t *blocks)
{
    static struct kvasir_item items[WANTED];
    static char keys[WANTED][32];
    set_items(items, keys, blocks, WANTED);
    /* What is found stays at least this long, so the get below will not miss it. */
    size_t found = 0;
    enum kvasir_status status = kvasir_match(client, items, WANTED, 10000, &found, 0);
    if (status != KVASIR_OK) {
        return status;
    }
    status = kvasir_get_batch(client, items, found, 0);
    if (status != KVASIR_OK) {
        return status;
    }
    for (size_t i = 0; i < found; i++) {
        /* A block that did not arrive is computed again: here it would be block i. */
        if (items[i].status != KVASIR_OK || blocks[i * BLOCK_BYTES] != 'a' + i) {
            return KVASIR_CORRUPT;
        }
    }
    (void)printf("%zu of %d blocks found and loaded by %s\n", found, WANTED,
                 kvasir_path_name(kvasir_path(client)));
    return found == STORED ? KVASIR_OK : KVASIR_NOT_FOUND;
}

int main(int argc, char **argv)
{
    struct kvasir_options options;
    kvasir_options_init(&options);
    options.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:6379";
    char error[256];
    struct kvasir_client *client = NULL;
    if (kvasir_connect(&options, error, sizeof error, &client) != KVASIR_OK) {
        (void)fprintf(stderr, "batch: %s\n", error);
        return 1;
    }
    uint8_t *blocks = calloc(WANTED, BLOCK_BYTES);
    enum kvasir_status status = blocks == NULL ? KVASIR_NO_MEMORY : store(client, blocks);
    if (status == KVASIR_OK) {
        memset(blocks, 0, (size_t)WANTED * BLOCK_BYTES);
        status = load(client, blocks);
    }
    if (status != KVASIR_OK) {
        (void)fprintf(stderr, "batch: %s: %s\n", kvasir_status_name(status), kvasir_error(client));
    }
    free(blocks);
    kvasir_close(&client);
    return status == KVASIR_OK ? 0 : 1;
}

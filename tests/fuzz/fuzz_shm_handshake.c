/* fuzz_shm_handshake – what a foreign server may answer to the client's KV.HELLO and KV.CONNECT SHM:
 * any bytes give facts within their bounds or are refused, and sizes that do not fit the descriptors
 * are never mapped. The first byte says which answer the rest is. */

#include "client/greeting.h"
#include "client/shm_map.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What the server of this target has to give; announced sizes differ. */
#define FILE_BYTES 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

struct answer {
    struct greeting greeting;
    struct greeting_shm shm;
};

static void check_text(const char *text, size_t capacity)
{
    check(memchr(text, '\0', capacity) != NULL);
}

static void check_greeting(const struct greeting *greeting)
{
    check(greeting->reactor_count > 0);
    check(greeting->port_count <= GREETING_REACTORS_MAX);
    check(greeting->socket_count <= GREETING_REACTORS_MAX);
    check_text(greeting->server, sizeof(greeting->server));
    check_text(greeting->version, sizeof(greeting->version));
    check_text(greeting->node_id, sizeof(greeting->node_id));
    check_text(greeting->shm_socket, sizeof(greeting->shm_socket));
    for (uint32_t i = 0; i < greeting->socket_count; i++) {
        check_text(greeting->sockets[i], sizeof(greeting->sockets[i]));
    }
}

static int make_file(void)
{
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    check(descriptor >= 0 && ftruncate(descriptor, FILE_BYTES) == 0);
    return descriptor;
}

/* Every place that is given out lies within what was mapped, and can be read and written. */
static void check_map(struct greeting_shm *shm)
{
    struct shm_map_table *table = calloc(1, sizeof(*table));
    const int descriptors[2] = {make_file(), make_file()};
    struct shm_map map = {0};
    check(table != NULL);
    size_t rings_bytes = greeting_rings_bytes(shm);
    check((rings_bytes == 0) == (shm->ring_bytes == 0));
    enum kvasir_status status =
        shm_map_open(&map, table, descriptors, shm->region_bytes, shm->staging_bytes, rings_bytes);
    bool fits = shm->region_bytes > 0 && shm->region_bytes <= FILE_BYTES &&
                shm->staging_bytes > 0 && shm->staging_bytes <= FILE_BYTES &&
                rings_bytes <= FILE_BYTES - shm->staging_bytes;
    check((status == KVASIR_OK) == fits);
    if (fits) {
        const uint8_t *last = shm_map_payload(&map, shm->region_bytes - 1, 1);
        uint8_t *staged = shm_map_staging(&map, shm->staging_bytes - 1, 1);
        check(last != NULL && *last == 0 && staged != NULL);
        *staged = 1;
        memset(map.staging + shm->staging_bytes, 1, rings_bytes);
        check(shm_map_payload(&map, shm->region_bytes, 1) == NULL);
        check(shm_map_payload(&map, UINT64_MAX, 2) == NULL);
        check(shm_map_payload(&map, 1, UINT64_MAX) == NULL);
        check(shm_map_staging(&map, shm->staging_bytes, 1) == NULL);
        check(shm_map_staging(&map, 1, UINT64_MAX) == NULL);
    }
    shm_map_close(&map);
    (void)close(descriptors[0]);
    (void)close(descriptors[1]);
    free(table);
}

/* One reply, as the link reads it: long bulks are no part of a handshake. */
static enum kvasir_status read_answer(const uint8_t *data, size_t length_bytes, bool greeting,
                                      struct answer *answer)
{
    struct reply_reader reader;
    struct greeting_reader facts;
    size_t at = 0;
    reply_reader_init(&reader);
    greeting_begin(&facts);
    for (;;) {
        struct reply_token token = {.kind = REPLY_NULL};
        size_t consumed = 0;
        enum reply_result result =
            reply_reader_advance(&reader, data + at, length_bytes - at, &token, &consumed);
        if (result != REPLY_TOKEN) {
            return result == REPLY_MORE ? KVASIR_AGAIN : KVASIR_PROTOCOL;
        }
        at += consumed;
        enum kvasir_status status = greeting ? greeting_token(&facts, &token, &answer->greeting)
                                             : greeting_shm_token(&facts, &token, &answer->shm);
        if (status != KVASIR_OK || token.ends_reply) {
            return status;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    static struct answer answer;
    if (length_bytes < 1) {
        return 0;
    }
    bool greeting = (data[0] & 1) != 0;
    /* Exactly as long as the input, so that a read beyond it shows. */
    uint8_t *copy = malloc(length_bytes > 1 ? length_bytes - 1 : 1);
    check(copy != NULL);
    memcpy(copy, data + 1, length_bytes - 1);
    memset(&answer, 0, sizeof(answer));
    if (read_answer(copy, length_bytes - 1, greeting, &answer) == KVASIR_OK) {
        if (greeting) {
            check_greeting(&answer.greeting);
        } else {
            check_map(&answer.shm);
        }
    }
    free(copy);
    return 0;
}

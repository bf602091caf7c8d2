/* Buffers for RDMA: what is registered, and when the queue pairs are made. */

#include "base/clock.h"
#include "client/client_impl.h"
#include "client/engine.h"

#include <string.h>

static bool pairs_are_asked(const struct kvasir_client *client)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        if (client->links[i]->pair.state == QUEUE_PAIR_ASKED) {
            return true;
        }
    }
    return false;
}

/* The first buffer is what the module is loaded for, and the queue pairs are made. */
static enum kvasir_status begin(struct kvasir_client *client)
{
    int64_t now_us = clock_mono_us();
    int64_t deadline_us = now_us + (int64_t)client->options.connect_timeout_ms * 1000;
    const struct link *home = client->links[client->home];
    char said[KVASIR_SAID_BYTES] = "";
    if (!client->options.rdma) {
        client_explain(client, "no RDMA: it is switched off by the options");
        return KVASIR_UNSUPPORTED;
    }
    if (link_has_shm(home)) {
        client_explain(client, "no RDMA: shared memory is in use, which needs nothing registered");
        return KVASIR_UNSUPPORTED;
    }
    if (!home->greeting->rdma) {
        client_explain(client, "no RDMA: the server offers none to this user");
        return KVASIR_UNSUPPORTED;
    }
    client->memory = remote_memory_open(&client->options, said);
    if (client->memory == NULL) {
        client_explain(client, "no RDMA: %s", said);
        return KVASIR_UNSUPPORTED;
    }
    for (uint32_t i = 0; i < client->link_count; i++) {
        if (client->links[i]->state == LINK_UP) {
            (void)queue_pair_ask(client->links[i], now_us);
        }
    }
    while (pairs_are_asked(client) && clock_mono_us() < deadline_us) {
        engine_turn(client, deadline_us);
    }
    return KVASIR_OK;
}

enum kvasir_status kvasir_register(struct kvasir_client *client, void *base, size_t length_bytes)
{
    char said[KVASIR_SAID_BYTES] = "";
    enum kvasir_status status = KVASIR_OK;
    if (!client_is_usable(client) || base == NULL || length_bytes == 0) {
        return KVASIR_INVALID;
    }
    if (client->memory == NULL) {
        status = begin(client);
    }
    if (status == KVASIR_OK) {
        status = remote_memory_add(client->memory, base, length_bytes, said);
        if (status != KVASIR_OK) {
            client_explain(client, "%s", said);
        } else if (!link_has_rdma(client->links[client->home])) {
            client_explain(client, "registered, but for now %s", client->rdma_reason);
        }
    }
    return status;
}

enum kvasir_status kvasir_unregister(struct kvasir_client *client, const void *base,
                                     size_t length_bytes)
{
    if (!client_is_usable(client)) {
        return KVASIR_INVALID;
    }
    if (!list_empty(&client->requests)) {
        client_explain(client, "a submitted request is in flight, which may use the buffer");
        return KVASIR_BUSY;
    }
    if (!list_empty(&client->moves)) {
        (void)rdma_move_poll(client); /* the last words of those that were cancelled */
    }
    return client->memory != NULL ? remote_memory_drop(client->memory, base, length_bytes)
                                  : KVASIR_NOT_FOUND;
}

#include "client/establish.h"

#include "base/clock.h"
#include "base/same_host.h"
#include "client/client_impl.h"
#include "client/engine.h"

#include <stdlib.h>
#include <string.h>

/* A try of the server's Unix socket that came to nothing is followed by another after this long; it
 * doubles. The first try costs a file that is not there, or one exchange on the same host. */
#define ESTABLISH_LOCAL_MS_MIN 500U
#define ESTABLISH_LOCAL_MS_MAX 30000U

/* Connects one link and waits until it greeted or gave up. */
static enum kvasir_status bring_up(struct kvasir_client *client, struct link *link,
                                   int64_t deadline_us)
{
    link_start(link, clock_mono_us());
    engine_settle(client, deadline_us);
    if (link->state == LINK_UP) {
        return KVASIR_OK;
    }
    return link->attempt_status != KVASIR_OK ? link->attempt_status : KVASIR_TIMEOUT;
}

static void learn(struct kvasir_client *client, const struct greeting *greeting)
{
    struct kvasir_server_info *info = &client->info;
    memcpy(info->version, greeting->version, sizeof info->version);
    memcpy(info->node_id, greeting->node_id, sizeof info->node_id);
    info->reactor_count = greeting->reactor_count;
    info->value_bytes_max = greeting->value_bytes_max;
    info->key_bytes_max = greeting->key_bytes_max;
    client->lease_ms_max = greeting->lease_ms_max;
}

/* Whether the server's Unix socket is worth a try from this host. */
static bool is_local(struct kvasir_client *client, const struct link *tcp)
{
    const struct greeting *greeting = tcp->greeting;
    if (!greeting->shm || greeting->shm_socket[0] == '\0') {
        client_explain_shm(client, "the server offers no shared memory");
        return false;
    }
    if (!same_host_is(tcp->channel.fd)) {
        client_explain_shm(client, "the server is on another host");
        return false;
    }
    return true;
}

/* A link by the Unix socket that tcp's server named, with shared memory; NULL: not to be had, and the
 * reason is explained. Meanwhile it stands in tcp's place and its socket is the client's shared endpoint;
 * on failure all is as it was. */
static struct link *connect_local(struct kvasir_client *client, struct link *tcp,
                                  int64_t deadline_us)
{
    struct endpoint tcp_endpoint = client->shared;
    struct link *local = link_create(client, tcp->index);
    if (local == NULL ||
        endpoint_of_path(tcp->greeting->shm_socket, &client->shared) != KVASIR_OK) {
        client_explain_shm(client, "the path of the server's socket is too long");
        link_destroy(&local);
        return NULL;
    }
    local->shm_wanted = true;
    client->links[tcp->index] = local;
    enum kvasir_status status = bring_up(client, local, deadline_us);
    bool same =
        status == KVASIR_OK && strcmp(local->greeting->node_id, tcp->greeting->node_id) == 0;
    if (same && link_has_shm(local)) {
        return local;
    }
    if (status != KVASIR_OK) {
        client_explain_shm(client, "%.200s", client->error);
    } else if (!same) {
        client_explain_shm(client, "%s belongs to another server", client->shared.text);
    }
    client->links[tcp->index] = tcp;
    client->shared = tcp_endpoint;
    client->retry_at_us = 0;
    client->backoff_ms = 0;
    link_destroy(&local);
    return NULL;
}

/* The one link that a client has before it spreads is exchanged for one with shared memory. */
static void prefer_local(struct kvasir_client *client, int64_t deadline_us)
{
    struct link *tcp = client->links[0];
    if (!client->options.shm) {
        client_explain_shm(client, "shared memory is switched off by the options");
    } else if (tcp->is_unix) {
        if (!tcp->greeting->shm) {
            client_explain_shm(client, "the server offers no shared memory");
        }
    } else if (is_local(client, tcp) && connect_local(client, tcp, deadline_us) != NULL) {
        link_destroy(&tcp);
    }
}

/* The own endpoint of a reactor, where the server has one. */
static void set_own_endpoint(struct kvasir_client *client, const struct greeting *greeting,
                             struct link *link)
{
    uint32_t index = link->index;
    if (endpoint_is_unix(&client->shared)) {
        if (index < greeting->socket_count && greeting->sockets[index][0] != '\0' &&
            endpoint_of_path(greeting->sockets[index], &link->own) != KVASIR_OK) {
            link->own.address_bytes = 0;
        }
    } else if (index < greeting->port_count && greeting->ports[index] != 0) {
        endpoint_of_port(&client->shared, greeting->ports[index], &link->own);
    }
}

static void drop_links(struct kvasir_client *client)
{
    for (uint32_t i = 0; i < GREETING_REACTORS_MAX; i++) {
        link_destroy(&client->links[i]);
    }
}

static void keep_alone(struct kvasir_client *client, struct link *link)
{
    client->links[0] = link;
    link->index = 0;
    client->link_count = 1;
    client->home = 0;
}

/* One link per reactor; the first connection stays with the reactor that serves it. */
static enum kvasir_status spread(struct kvasir_client *client)
{
    struct link *first = client->links[0];
    /* Copied: the links' own greetings change as they connect. */
    struct greeting *greeting = malloc(sizeof *greeting);
    if (greeting == NULL) {
        return KVASIR_NO_MEMORY;
    }
    *greeting = *first->greeting;
    uint32_t count = greeting->reactor_count;
    if (count > GREETING_REACTORS_MAX) {
        count = GREETING_REACTORS_MAX;
    }
    uint32_t place = greeting->reactor < count ? greeting->reactor : 0;
    client->links[0] = NULL;
    client->links[place] = first;
    first->index = place;
    bool complete = true;
    for (uint32_t i = 0; i < count && complete; i++) {
        if (i != place) {
            client->links[i] = link_create(client, i);
        }
        complete = client->links[i] != NULL;
        if (complete) {
            client->links[i]->shm_wanted = first->shm_wanted;
            set_own_endpoint(client, greeting, client->links[i]);
        }
    }
    free(greeting);
    if (!complete) {
        client->links[place] = NULL;
        drop_links(client);
        keep_alone(client, first);
        return KVASIR_NO_MEMORY;
    }
    client->home = (uint32_t)random_below(&client->random, count);
    client->link_count = count;
    int64_t now_us = clock_mono_us();
    for (uint32_t i = 0; i < count; i++) {
        if (i != place) {
            link_start(client->links[i], now_us);
        }
    }
    engine_settle(client, now_us + (int64_t)client->options.connect_timeout_ms * 2000);
    /* A reactor that could not be reached is tried again when a key needs it. */
    return KVASIR_OK;
}

/* When to look for shared memory next; the wait grows while it is not to be had. */
static void plan_next_look(struct kvasir_client *client)
{
    uint32_t wait_ms = client->local_wait_ms * 2;
    client->local_reconnects = client->counters.reconnects;
    if (client->info.shm) {
        client->local_wait_ms = 0;
        client->local_retry_at_us = INT64_MAX;
        return;
    }
    wait_ms = wait_ms < ESTABLISH_LOCAL_MS_MIN ? ESTABLISH_LOCAL_MS_MIN : wait_ms;
    client->local_wait_ms = wait_ms < ESTABLISH_LOCAL_MS_MAX ? wait_ms : ESTABLISH_LOCAL_MS_MAX;
    client->local_retry_at_us = clock_mono_us() + (int64_t)client->local_wait_ms * 1000;
}

/* The one link that there is, which greeted, is joined by those to the other reactors. */
static enum kvasir_status finish(struct kvasir_client *client)
{
    learn(client, client->links[0]->greeting);
    enum kvasir_status status = spread(client);
    client->info.shm = link_has_shm(client->links[client->home]);
    plan_next_look(client);
    return status;
}

static enum kvasir_status establish(struct kvasir_client *client, int64_t deadline_us)
{
    struct link *link = link_create(client, 0);
    if (link == NULL) {
        return KVASIR_NO_MEMORY;
    }
    drop_links(client);
    client->shared = client->origin;
    link->shm_wanted = client->options.shm;
    keep_alone(client, link);
    enum kvasir_status status = bring_up(client, link, deadline_us);
    if (status != KVASIR_OK) {
        return status;
    }
    prefer_local(client, deadline_us);
    return finish(client);
}

enum kvasir_status establish_first(struct kvasir_client *client)
{
    return establish(client, clock_mono_us() + (int64_t)client->options.connect_timeout_ms * 2000);
}

/* ---- anew ---------------------------------------------------------------------------------- */

/* A link that lives. One whose server is gone is noticed here, for nobody used it meanwhile. */
static struct link *find_up(struct kvasir_client *client, int64_t now_us)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        struct link *link = client->links[i];
        if (link->state == LINK_UP) {
            channel_listen(&link->channel);
            link_receive(link, now_us);
        }
        if (link->state == LINK_UP) {
            return link;
        }
    }
    return NULL;
}

/* The socket of a server on this host leads nowhere any more: from the address that the caller gave all
 * is found out anew, shared memory included. */
static void return_to_origin(struct kvasir_client *client, int64_t now_us, int64_t deadline_us)
{
    if (now_us < client->retry_at_us || client->links[client->home]->attempt_status == KVASIR_OK) {
        return;
    }
    if (establish(client, deadline_us) != KVASIR_OK) {
        client->local_retry_at_us = 0; /* due again when the client may connect again */
    }
}

/* By TCP so far. */
static void move_to_local(struct kvasir_client *client, struct link *tcp, int64_t deadline_us)
{
    struct link *local = NULL;
    if (is_local(client, tcp)) {
        local = connect_local(client, tcp, deadline_us);
    }
    if (local == NULL) {
        plan_next_look(client);
        return;
    }
    link_destroy(&tcp);
    client->links[local->index] = NULL;
    drop_links(client);
    keep_alone(client, local);
    (void)finish(client); /* without memory for the others one link serves all */
}

/* Connected to the Unix socket, by which shared memory was refused: each link asks again when it is
 * needed next. */
static void ask_again(struct kvasir_client *client)
{
    for (uint32_t i = 0; i < client->link_count; i++) {
        struct link *link = client->links[i];
        if (link->state == LINK_UP && link->greeting->shm && !link_has_shm(link)) {
            link_drop(link, KVASIR_CLOSED);
        }
    }
}

void establish_look(struct kvasir_client *client, int64_t now_us, int64_t deadline_us)
{
    bool by_unix = endpoint_is_unix(&client->shared);
    struct link *up;
    if (!list_empty(&client->requests) || !list_empty(&client->views)) {
        return;
    }
    up = find_up(client, now_us);
    if (client->counters.reconnects != client->local_reconnects) {
        client->local_wait_ms = 0; /* this may be another server by now */
    }
    if (up == NULL) {
        if (by_unix && !endpoint_is_unix(&client->origin)) {
            return_to_origin(client, now_us, deadline_us);
        }
        return;
    }
    client->info.shm = link_has_shm(up);
    if (!by_unix) {
        move_to_local(client, up, deadline_us);
        return;
    }
    if (!client->info.shm) {
        ask_again(client);
    }
    plan_next_look(client);
}

#include "server/shares.h"

#include "base/check.h"
#include "server/conn.h"
#include "server/remote.h"
#include "store/grant.h"
#include "store/reuse.h"
#include "store/value.h"

/* Automatic shares of maxmemory. A small store gives its buffers more, up to the whole of BUFFER_BYTES_FAIR. */
#define SHARE_DIVISOR     16
#define BUFFER_DIVISOR    8
#define BUFFER_BYTES_FAIR (16ULL << 20)
#define STAGING_DIVISOR   8
/* Buckets of the index, 4 to 8 bytes a value, for as many values as the metadata has room for. */
#define INDEX_DIVISOR     16
#define STAGING_BYTES_MAX (2ULL << 30)
/* A reactor with less would serve hardly anybody at a time: about 1.7 MiB of batches and chunks. */
#define BATCHES_MIN         8
#define REACTOR_BUFFERS_MIN (2ULL << 20)
/* What a reactor allocates for itself, most of it for counts of commands and the shard; and what the
 * process does: users, modules, the loops' library. test_56_memory looks whether it is enough. */
#define REACTOR_OWN_BYTES (512ULL << 10)
#define PROCESS_OWN_BYTES (1ULL << 20)
/* Of a table of grants as many are in use soon; see grant.c. */
#define GRANTS_BYTES_MIN (1024 * GRANT_BYTES)

bool shares_offer_shm(const struct settings *settings)
{
    return settings->shm && settings->unixsocket[0] != '\0';
}

static uint64_t share_of_staging(const struct settings *settings)
{
    uint64_t share = settings->maxmemory / STAGING_DIVISOR;
    if (!shares_offer_shm(settings)) {
        return 0;
    }
    if (settings->shm_staging_total != 0) {
        return settings->shm_staging_total;
    }
    return share < STAGING_BYTES_MAX ? share : STAGING_BYTES_MAX;
}

static uint64_t share_of_buffers(const struct settings *settings, uint32_t reactor_count)
{
    uint64_t least = reactor_count * REACTOR_BUFFERS_MIN;
    uint64_t share = settings->maxmemory / SHARE_DIVISOR;
    uint64_t fair = settings->maxmemory / BUFFER_DIVISOR;
    fair = fair < BUFFER_BYTES_FAIR ? fair : BUFFER_BYTES_FAIR;
    share = share > fair ? share : fair;
    share = settings->buffer_memory != 0 ? settings->buffer_memory : share;
    return share > least ? share : least;
}

static uint64_t share_of_metadata(const struct settings *settings)
{
    uint64_t share = settings->maxmemory / SHARE_DIVISOR;
    uint64_t metadata = settings->metadata_memory != 0 ? settings->metadata_memory : share;
    metadata = metadata < VALUE_MEMORY_BYTES_MAX ? metadata : VALUE_MEMORY_BYTES_MAX;
    metadata -= metadata % SERVER_PAYLOAD_PAGE_BYTES;
    return metadata > 0 ? metadata : SERVER_PAYLOAD_PAGE_BYTES;
}

/* What connections may hold: a quarter for requests being served, if that is enough, the rest for bytes in
 * and out. */
static void divide_buffers(struct server *server, uint64_t buffer_bytes)
{
    uint64_t each = buffer_bytes / server->reactor_count;
    uint64_t batch_bytes = BATCH_BYTES(server->reactor_count);
    uint64_t batches = each / 4 / batch_bytes;
    server->batches_max = batches < BATCHES_MIN ? BATCHES_MIN : batches;
    batch_bytes *= server->batches_max;
    batch_bytes = batch_bytes > each / 4 ? batch_bytes : each / 4;
    check(batch_bytes < each);
    server->buffer_chunks_max = (each - batch_bytes) / sizeof(struct chunk);
}

static uint64_t share_of_queue_pairs(const struct server *server)
{
    return server->fabric == NULL ? 0
                                  : (uint64_t)server->reactor_count *
                                        server->settings.rdma_clients_max * sizeof(struct remote);
}

/* Tables of grants grow with what is out, and payload gives way; where it cannot they count in full. */
static uint64_t share_of_grants(const struct server *server)
{
    bool gives_way = !shares_offer_shm(&server->settings) && server->fabric == NULL;
    uint64_t most = server->settings.grants_max * GRANT_BYTES;
    return server->reactor_count * (gives_way && most > GRANTS_BYTES_MIN ? GRANTS_BYTES_MIN : most);
}

void shares_divide(struct server *server, struct shares *shares_p)
{
    const struct settings *settings = &server->settings;
    *shares_p = (struct shares){
        .metadata_bytes = share_of_metadata(settings),
        .buffer_bytes = share_of_buffers(settings, server->reactor_count),
        .staging_bytes = share_of_staging(settings),
    };
    divide_buffers(server, shares_p->buffer_bytes);
    server->staging_bytes_max = shares_p->staging_bytes / server->reactor_count;
    server->grants_share_bytes = share_of_grants(server);
    server->heap_share_bytes =
        shares_p->buffer_bytes + PROCESS_OWN_BYTES + server->reactor_count * REACTOR_OWN_BYTES +
        reuse_bytes(server->reactor_count, settings->maxmemory) + share_of_queue_pairs(server);
    server->fixed_bytes = shares_p->metadata_bytes + shares_p->metadata_bytes / INDEX_DIVISOR +
                          shares_p->staging_bytes + server->grants_share_bytes +
                          server->heap_share_bytes;
}

#include "server/cmd_kv.h"

#include "server/cmd_rdma.h"
#include "server/reply.h"

static void reply_shm_transport(struct conn *conn)
{
    reply_map(conn, 2);
    reply_pair_text(conn, "name", "shm");
    reply_pair_text(conn, "socket", conn->reactor->settings.unixsocket);
}

void cmd_kv_reply_hello(struct conn *conn, struct request *request)
{
    const struct server *server = conn->reactor->server;
    const struct settings *settings = &conn->reactor->settings;
    bool sockets = settings->unixsocket[0] != '\0';
    bool shm = sockets && settings->shm;
    uint32_t rdma_count = cmd_rdma_device_count(conn);
    (void)request;
    reply_map(conn, 14);
    reply_pair_text(conn, "server", "kvasir");
    reply_pair_text(conn, "version", SERVER_VERSION);
    reply_pair_text(conn, "node", server->run_id);
    reply_pair_integer(conn, "epoch", 0);
    reply_pair_integer(conn, "reactors", server->reactor_count);
    reply_pair_integer(conn, "reactor", conn->reactor->index);
    reply_text(conn, "reactor_ports");
    reply_array(conn, server->reactors[0]->own_port != 0 ? server->reactor_count : 0);
    for (uint32_t i = 0; i < server->reactor_count && server->reactors[0]->own_port != 0; i++) {
        reply_integer(conn, server->reactors[i]->own_port);
    }
    reply_text(conn, "reactor_sockets");
    reply_array(conn, sockets ? server->reactor_count : 0);
    for (uint32_t i = 0; i < server->reactor_count && sockets; i++) {
        reply_text(conn, server->reactors[i]->own_socket);
    }
    reply_pair_integer(conn, "key_bytes_max", VALUE_KEY_BYTES_MAX);
    reply_pair_integer(conn, "value_bytes_max", (int64_t)settings->proto_max_bulk_len);
    reply_pair_integer(conn, "page_bytes", SERVER_PAYLOAD_PAGE_BYTES);
    reply_pair_integer(conn, "lease_ms_max", (int64_t)settings->lease_max_ms);
    reply_text(conn, "features");
    reply_array(conn, 4);
    reply_text(conn, "match");
    reply_text(conn, "lease");
    reply_text(conn, "pin");
    reply_text(conn, "events");
    reply_text(conn, "transports");
    reply_array(conn, 1U + (shm ? 1U : 0U) + rdma_count);
    reply_map(conn, 1);
    reply_pair_text(conn, "name", "tcp");
    if (shm) {
        reply_shm_transport(conn);
    }
    cmd_rdma_describe(conn, rdma_count);
}

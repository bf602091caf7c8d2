#include "client/greeting.h"

#include "base/ring_channel.h"

/* A page, and more than makes it any faster. */
#define RING_BYTES_MIN 4096U
#define RING_BYTES_MAX (1U << 24)

enum field {
    FIELD_OTHER,
    FIELD_SERVER,
    FIELD_VERSION,
    FIELD_NODE,
    FIELD_REACTORS,
    FIELD_REACTOR,
    FIELD_PORTS,
    FIELD_SOCKETS,
    FIELD_KEY_MAX,
    FIELD_VALUE_MAX,
    FIELD_LEASE_MAX,
    FIELD_TRANSPORTS,
    FIELD_NAME,
    FIELD_SOCKET,
    FIELD_REGION,
    FIELD_STAGING,
    FIELD_PAGE,
    FIELD_RING_OFFSET,
    FIELD_RING_BYTES,
    FIELD_MODES,
};

static const struct {
    const char *name;
    enum field field;
} field_names[] = {
    {"server", FIELD_SERVER},
    {"version", FIELD_VERSION},
    {"node", FIELD_NODE},
    {"reactors", FIELD_REACTORS},
    {"reactor", FIELD_REACTOR},
    {"reactor_ports", FIELD_PORTS},
    {"reactor_sockets", FIELD_SOCKETS},
    {"key_bytes_max", FIELD_KEY_MAX},
    {"value_bytes_max", FIELD_VALUE_MAX},
    {"lease_ms_max", FIELD_LEASE_MAX},
    {"transports", FIELD_TRANSPORTS},
    {"name", FIELD_NAME},
    {"socket", FIELD_SOCKET},
    {"region_bytes", FIELD_REGION},
    {"staging_bytes", FIELD_STAGING},
    {"page_bytes", FIELD_PAGE},
    {"ring_offset", FIELD_RING_OFFSET},
    {"ring_bytes", FIELD_RING_BYTES},
    {"modes", FIELD_MODES},
};

static enum field field_of(struct slice name)
{
    for (size_t i = 0; i < ARRAY_COUNT(field_names); i++) {
        if (slice_equal(name, slice_of_text(field_names[i].name))) {
            return field_names[i].field;
        }
    }
    return FIELD_OTHER;
}

static bool is_text(const struct reply_token *token)
{
    return token->kind == REPLY_BULK || token->kind == REPLY_SIMPLE;
}

/* Text that does not fit is cut short: only the node's id is compared, always with the same cut. */
static void set_text(char *to, size_t capacity, const struct reply_token *token)
{
    if (is_text(token)) {
        size_t length =
            token->text.length_bytes < capacity - 1 ? token->text.length_bytes : capacity - 1;
        memcpy(to, token->text.data, length);
        to[length] = '\0';
    }
}

static uint64_t number_of(const struct reply_token *token, uint64_t max)
{
    if (token->kind != REPLY_INTEGER || token->number < 0) {
        return 0;
    }
    return (uint64_t)token->number < max ? (uint64_t)token->number : max;
}

void greeting_begin(struct greeting_reader *reader)
{
    memset(reader, 0, sizeof *reader);
}

static void take_scalar(enum field field, const struct reply_token *token,
                        struct greeting *greeting)
{
    if (field == FIELD_SERVER) {
        set_text(greeting->server, sizeof greeting->server, token);
    } else if (field == FIELD_VERSION) {
        set_text(greeting->version, sizeof greeting->version, token);
    } else if (field == FIELD_NODE) {
        set_text(greeting->node_id, sizeof greeting->node_id, token);
    } else if (field == FIELD_REACTORS) {
        greeting->reactor_count = (uint32_t)number_of(token, UINT16_MAX);
    } else if (field == FIELD_REACTOR) {
        greeting->reactor = (uint32_t)number_of(token, UINT16_MAX);
    } else if (field == FIELD_KEY_MAX) {
        greeting->key_bytes_max = (uint32_t)number_of(token, UINT32_MAX);
    } else if (field == FIELD_VALUE_MAX) {
        greeting->value_bytes_max = number_of(token, INT64_MAX);
    } else if (field == FIELD_LEASE_MAX) {
        greeting->lease_ms_max = (uint32_t)number_of(token, UINT32_MAX);
    }
}

static void take_element(struct greeting_reader *reader, const struct reply_token *token,
                         struct greeting *greeting)
{
    if (reader->field == FIELD_PORTS && greeting->port_count < GREETING_REACTORS_MAX) {
        greeting->ports[greeting->port_count] = (uint16_t)number_of(token, UINT16_MAX);
        greeting->port_count++;
    } else if (reader->field == FIELD_SOCKETS && greeting->socket_count < GREETING_REACTORS_MAX) {
        set_text(greeting->sockets[greeting->socket_count], GREETING_PATH_BYTES_MAX, token);
        greeting->socket_count++;
    } else if (reader->field == FIELD_TRANSPORTS) {
        reader->inner_value_next = false;
        reader->transport_shm = false;
        reader->transport_rdma = false;
        reader->transport_address = (struct kvasir_link_address){.gid.type = KVASIR_GID_ROCE_V2};
        reader->transport_socket[0] = '\0';
    }
}

/* One field of the address of an RDMA device; what cannot be is left out. */
static void take_address(struct greeting_reader *reader, const struct reply_token *token)
{
    struct kvasir_link_address *address = &reader->transport_address;
    if (reader->inner_word == LINK_WORD_COUNT) {
        return;
    }
    if (!link_word_is_number(reader->inner_word)) {
        (void)!(is_text(token) && link_word_set_text(address, reader->inner_word, token->text));
    } else if (token->kind == REPLY_INTEGER && token->number >= 0) {
        (void)!link_word_set_number(address, reader->inner_word, (uint64_t)token->number);
    }
}

/* The names come in any order. */
static void take_transport(struct greeting_reader *reader, const struct reply_token *token,
                           struct greeting *greeting)
{
    if (!reader->inner_value_next) {
        reader->inner_field = is_text(token) ? (int)field_of(token->text) : FIELD_OTHER;
        reader->inner_word = is_text(token) ? link_word_find(token->text) : LINK_WORD_COUNT;
        reader->inner_value_next = true;
        return;
    }
    reader->inner_value_next = false;
    if (reader->inner_field == FIELD_NAME && is_text(token)) {
        reader->transport_shm = slice_equal(token->text, slice_of_text("shm"));
        reader->transport_rdma =
            slice_equal(token->text, slice_of_text("rdma")) && greeting->rdma_count < RAILS_MAX;
        greeting->rdma_count += reader->transport_rdma ? 1 : 0;
    } else if (reader->inner_field == FIELD_SOCKET) {
        set_text(reader->transport_socket, sizeof reader->transport_socket, token);
    } else {
        take_address(reader, token);
    }
    if (reader->transport_rdma) {
        greeting->rdma_addresses[greeting->rdma_count - 1] = reader->transport_address;
    }
    if (reader->transport_shm) {
        greeting->shm = true;
        memcpy(greeting->shm_socket, reader->transport_socket, sizeof greeting->shm_socket);
    }
}

/* The map's own token, and the alternation of keys and values below it. True: token is the value of
 * reader->field. */
static bool is_value(struct greeting_reader *reader, const struct reply_token *token)
{
    if (!reader->value_next) {
        reader->field = is_text(token) ? (int)field_of(token->text) : FIELD_OTHER;
        reader->value_next = true;
        return false;
    }
    reader->value_next = false;
    return true;
}

enum kvasir_status greeting_token(struct greeting_reader *reader, const struct reply_token *token,
                                  struct greeting *greeting)
{
    if (token->kind == REPLY_BULK_HEADER || (token->depth == 0 && token->kind != REPLY_MAP)) {
        return KVASIR_PROTOCOL;
    }
    if (token->depth == 0) {
        memset(greeting, 0, sizeof *greeting);
    } else if (token->depth == 1) {
        if (is_value(reader, token)) {
            take_scalar((enum field)reader->field, token, greeting);
        }
    } else if (token->depth == 2) {
        take_element(reader, token, greeting);
    } else if (token->depth == 3 && reader->field == FIELD_TRANSPORTS) {
        take_transport(reader, token, greeting);
    } else if (token->depth == 4 && reader->inner_field == FIELD_MODES && reader->transport_rdma) {
        bool *lends = &greeting->rdma_lends[greeting->rdma_count - 1];
        *lends = *lends || (is_text(token) && slice_equal(token->text, slice_of_text("client")));
    }
    if (token->ends_reply &&
        (greeting->reactor_count == 0 ||
         !slice_equal(slice_of_text(greeting->server), slice_of_text("kvasir")))) {
        return KVASIR_PROTOCOL;
    }
    return KVASIR_OK;
}

enum kvasir_status greeting_shm_token(struct greeting_reader *reader,
                                      const struct reply_token *token, struct greeting_shm *shm)
{
    if (token->kind == REPLY_BULK_HEADER || (token->depth == 0 && token->kind != REPLY_MAP)) {
        return KVASIR_PROTOCOL;
    }
    if (token->depth == 0) {
        memset(shm, 0, sizeof *shm);
    } else if (token->depth == 1 && is_value(reader, token)) {
        if (reader->field == FIELD_REGION) {
            shm->region_bytes = number_of(token, INT64_MAX);
        } else if (reader->field == FIELD_STAGING) {
            shm->staging_bytes = number_of(token, INT64_MAX);
        } else if (reader->field == FIELD_PAGE) {
            shm->page_bytes = (uint32_t)number_of(token, UINT32_MAX);
        } else if (reader->field == FIELD_RING_OFFSET) {
            shm->ring_offset_bytes = number_of(token, INT64_MAX);
        } else if (reader->field == FIELD_RING_BYTES) {
            shm->ring_bytes = (uint32_t)number_of(token, UINT32_MAX);
        } else if (reader->field == FIELD_LEASE_MAX) {
            shm->lease_ms_max = (uint32_t)number_of(token, UINT32_MAX);
        }
    }
    return KVASIR_OK;
}

size_t greeting_rings_bytes(struct greeting_shm *shm)
{
    bool fits =
        shm->staging_bytes > 0 && shm->ring_bytes >= RING_BYTES_MIN &&
        shm->ring_bytes <= RING_BYTES_MAX && (shm->ring_bytes & (shm->ring_bytes - 1)) == 0 &&
        shm->ring_offset_bytes == shm->staging_bytes && shm->staging_bytes % RING_BYTES_MIN == 0;
    shm->ring_bytes = fits ? shm->ring_bytes : 0;
    return fits ? RING_CHANNEL_BYTES(shm->ring_bytes) : 0;
}

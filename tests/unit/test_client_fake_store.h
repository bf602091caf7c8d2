#pragma once
/* test_client_fake_store – the state, storage and output of the fake server; see test_client_fake.h.
 * Used by the fake's thread. */

#include "base/check.h"
#include "base/number.h"
#include "base/slice.h"
#include "route/slot.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FAKE_REACTORS_MAX 4
#define FAKE_CONNS_MAX    32
#define FAKE_KEYS_MAX     (1U << 15)
#define FAKE_ARGS_MAX     1100
#define FAKE_REGION_BYTES (192U << 20)
/* Where a grant is cut in two, so that values have more than one piece. */
#define FAKE_CUT_BYTES 10000U

struct fake_entry {
    char *key; /* owned; NULL: free */
    size_t key_length;
    size_t offset; /* in the region */
    size_t length;
    bool present;
    char parent[64];
};

struct fake_conn {
    int fd; /* -1: free */
    uint32_t listener;
    bool muted; /* neither reads nor answers any more */
    bool finishing;
    uint8_t *in;
    size_t in_length, in_capacity;
    uint8_t *out;
    size_t out_length, out_sent, out_capacity;
    int pass[2]; /* descriptors that go with the next byte; -1: none */
    int staging_fd;
    uint8_t *staging;
    size_t staging_size, staging_next;
    uint32_t reservations;
};

struct fake {
    /* Set before fake_start. */
    uint32_t reactor_count;
    bool use_unix, shm, wrong_greeting, silent_greeting, refuse_greeting, dead_ports,
        no_descriptors;
    bool dribble;        /* one byte per send */
    bool read_when_idle; /* takes no input while output waits, with small socket buffers */
    bool refuse_reserve;
    int delay_ms; /* before each LEASE is answered */
    uint16_t fixed_port;
    size_t staging_grant_max;
    const char *const *event_replies; /* what KV.EVENTS is answered, in turn; NULL ends it */

    /* Read after fake_stop. */
    uint32_t connections, misrouted, leases, releases, reserves, commits, aborts, sets, gets;
    char events_since[8][24]; /* what KV.EVENTS was asked */
    uint32_t events_asked;
    uint32_t match_commands, match_keys_max, hello_auth;

    uint16_t ports[FAKE_REACTORS_MAX];
    char path[64];
    pthread_t thread;
    int listeners[FAKE_REACTORS_MAX + 1];
    uint32_t listener_count;
    int stop[2];
    int region_fd;
    uint8_t *region;
    size_t region_used;
    struct fake_entry *entries;
    struct fake_conn conns[FAKE_CONNS_MAX];
    uint64_t next_id;
    struct slice args[FAKE_ARGS_MAX];
    struct {
        uint64_t id;
        size_t offset, length;
        char key[64];
        size_t key_length;
    } reservations[128];
};

/* ---- storage ------------------------------------------------------------------------------- */

static inline struct fake_entry *fake_find(struct fake *fake, struct slice key)
{
    uint64_t hash = 14695981039346656037ULL;
    for (size_t i = 0; i < key.length_bytes; i++) {
        hash = (hash ^ key.data[i]) * 1099511628211ULL;
    }
    for (uint32_t i = 0;; i++) {
        check(i < FAKE_KEYS_MAX);
        struct fake_entry *entry = &fake->entries[(hash + i) % FAKE_KEYS_MAX];
        if (entry->key == NULL || slice_equal(key, slice_of(entry->key, entry->key_length))) {
            return entry;
        }
    }
}

static inline void fake_store(struct fake *fake, struct slice key, const uint8_t *data,
                              size_t length)
{
    struct fake_entry *entry = fake_find(fake, key);
    if (entry->key == NULL) {
        entry->key = malloc(key.length_bytes + 1);
        check(entry->key != NULL);
        memcpy(entry->key, key.data, key.length_bytes);
        entry->key_length = key.length_bytes;
    }
    check(fake->region_used + length <= FAKE_REGION_BYTES);
    entry->present = true;
    entry->offset = fake->region_used;
    entry->length = length;
    if (length > 0) {
        memcpy(fake->region + entry->offset, data, length);
    }
    fake->region_used += (length + 63) & ~(size_t)63;
}

/* ---- output -------------------------------------------------------------------------------- */

static inline void fake_write(struct fake_conn *conn, const void *data, size_t length)
{
    if (conn->out_length + length > conn->out_capacity) {
        conn->out_capacity = (conn->out_length + length) * 2;
        conn->out = realloc(conn->out, conn->out_capacity);
        check(conn->out != NULL);
    }
    memcpy(conn->out + conn->out_length, data, length);
    conn->out_length += length;
}

static inline void fake_text(struct fake_conn *conn, const char *text)
{
    fake_write(conn, text, strlen(text));
}

static inline void fake_header(struct fake_conn *conn, char type, uint64_t number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%c%llu\r\n", type, (unsigned long long)number);
    fake_write(conn, text, (size_t)length);
}

static inline void fake_bulk(struct fake_conn *conn, const void *data, size_t length)
{
    fake_header(conn, '$', length);
    fake_write(conn, data, length);
    fake_text(conn, "\r\n");
}

static inline void fake_pair(struct fake_conn *conn, const char *name, uint64_t number)
{
    fake_bulk(conn, name, strlen(name));
    fake_header(conn, ':', number);
}

static inline void fake_pair_text(struct fake_conn *conn, const char *name, const char *text)
{
    fake_bulk(conn, name, strlen(name));
    fake_bulk(conn, text, strlen(text));
}

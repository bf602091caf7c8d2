#pragma once
/* test_client_fake_shm – the fake server's commands of shared memory; see test_client_fake.h. Used by
 * the fake's thread. */

#include "test_client_fake_store.h"

static inline void fake_connect_shm(struct fake *fake, struct fake_conn *conn, uint64_t staging)
{
    if (fake->staging_grant_max > 0 && staging > fake->staging_grant_max) {
        staging = fake->staging_grant_max;
    }
    conn->staging_fd = memfd_create("fake-staging", MFD_CLOEXEC);
    check(conn->staging_fd >= 0 && ftruncate(conn->staging_fd, (off_t)staging) == 0);
    conn->staging_size = staging;
    conn->staging = mmap(NULL, staging, PROT_READ | PROT_WRITE, MAP_SHARED, conn->staging_fd, 0);
    check(conn->staging != MAP_FAILED);
    if (!fake->no_descriptors) {
        conn->pass[0] = fake->region_fd;
        conn->pass[1] = conn->staging_fd;
    }
    fake_text(conn, "%4\r\n");
    fake_pair(conn, "region_bytes", FAKE_REGION_BYTES);
    fake_pair(conn, "page_bytes", 2U << 20);
    fake_pair(conn, "staging_bytes", staging);
    fake_pair(conn, "lease_ms_max", 60000);
}

static inline void fake_extents(struct fake_conn *conn, size_t offset, size_t length)
{
    if (length > FAKE_CUT_BYTES) {
        fake_text(conn, "*4\r\n");
        fake_header(conn, ':', offset);
        fake_header(conn, ':', FAKE_CUT_BYTES);
        fake_header(conn, ':', offset + FAKE_CUT_BYTES);
        fake_header(conn, ':', length - FAKE_CUT_BYTES);
    } else if (length > 0) {
        fake_text(conn, "*2\r\n");
        fake_header(conn, ':', offset);
        fake_header(conn, ':', length);
    } else {
        fake_text(conn, "*0\r\n");
    }
}

static inline void fake_lease(struct fake *fake, struct fake_conn *conn, const struct slice *args,
                              uint32_t count)
{
    if (fake->delay_ms > 0) {
        (void)poll(NULL, 0, fake->delay_ms);
    }
    fake_header(conn, '*', count);
    for (uint32_t i = 0; i < count; i++) {
        const struct fake_entry *entry = fake_find(fake, args[i]);
        if (!entry->present) {
            fake_text(conn, "_\r\n");
            continue;
        }
        fake->leases++;
        fake_text(conn, "*4\r\n");
        fake_header(conn, ':', ++fake->next_id);
        fake_header(conn, ':', entry->length);
        fake_text(conn, "_\r\n");
        bool outside = args[i].data[0] == '!';
        fake_extents(conn, outside ? FAKE_REGION_BYTES - 1 : entry->offset, entry->length);
    }
}

static inline void fake_reserve(struct fake *fake, struct fake_conn *conn, const struct slice *args,
                                uint32_t count)
{
    uint64_t length = 0;
    check(count >= 2 && slice_to_u64(args[1], &length));
    fake->reserves++;
    bool only_if_absent = count > 2 && slice_equal_nocase(args[2], "NX");
    if (only_if_absent && fake_find(fake, args[0])->present) {
        fake_text(conn, "+EXISTS\r\n");
        return;
    }
    conn->staging_next = conn->reservations == 0 ? 0 : conn->staging_next;
    if (fake->refuse_reserve || conn->staging_next + length > conn->staging_size) {
        fake_text(conn, "-BUSY no staging memory\r\n");
        return;
    }
    uint64_t id = ++fake->next_id;
    uint32_t place = (uint32_t)(id % ARRAY_COUNT(fake->reservations));
    check(fake->reservations[place].id == 0 && args[0].length_bytes < 64);
    fake->reservations[place].id = id;
    fake->reservations[place].offset = conn->staging_next;
    fake->reservations[place].length = length;
    fake->reservations[place].key_length = args[0].length_bytes;
    memcpy(fake->reservations[place].key, args[0].data, args[0].length_bytes);
    fake_text(conn, "*3\r\n");
    fake_header(conn, ':', id);
    fake_header(conn, ':', 5000);
    fake_extents(conn, conn->staging_next, length);
    conn->staging_next += length;
    conn->reservations++;
}

static inline void fake_commit(struct fake *fake, struct fake_conn *conn, struct slice id_text,
                               bool commit)
{
    uint64_t id = 0;
    check(slice_to_u64(id_text, &id));
    uint32_t place = (uint32_t)(id % ARRAY_COUNT(fake->reservations));
    check(fake->reservations[place].id == id);
    fake->reservations[place].id = 0;
    conn->reservations--;
    fake->commits += commit ? 1 : 0;
    fake->aborts += commit ? 0 : 1;
    if (commit) {
        fake_store(
            fake, slice_of(fake->reservations[place].key, fake->reservations[place].key_length),
            conn->staging + fake->reservations[place].offset, fake->reservations[place].length);
    }
    fake_text(conn, "+OK\r\n");
}

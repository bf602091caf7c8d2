#include "plug/registry.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A table without this much has no name. */
#define CODEC_BYTES_MIN offsetof(struct kvasir_codec_ops, bound)

struct registry {
    unsigned count;
    struct registry_entry entries[REGISTRY_ENTRIES_MAX]; /* the first count are in use */
};

struct registry *registry_create(void)
{
    return calloc(1, sizeof(struct registry));
}

void registry_destroy(struct registry **registry_p)
{
    free(*registry_p);
    *registry_p = NULL;
}

bool registry_name_valid(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789._+-";
    size_t length_bytes;
    if (name == NULL) {
        return false;
    }
    length_bytes = strnlen(name, KVASIR_MODULE_NAME_BYTES_MAX + 1);
    return length_bytes > 0 && length_bytes <= KVASIR_MODULE_NAME_BYTES_MAX &&
           strspn(name, allowed) == length_bytes;
}

/* A new entry without operations. KVASIR_EXISTS, KVASIR_BUSY. */
static enum kvasir_status add_entry(struct registry *registry, enum registry_kind kind,
                                    const char *name, void *state, struct registry_entry **entry_p)
{
    struct registry_entry *entry;
    if (registry_find(registry, kind, slice_of_text(name)) != NULL) {
        return KVASIR_EXISTS;
    }
    if (registry->count == REGISTRY_ENTRIES_MAX) {
        return KVASIR_BUSY;
    }
    entry = &registry->entries[registry->count++];
    memset(entry, 0, sizeof(*entry));
    entry->kind = kind;
    entry->state = state;
    (void)snprintf(entry->name, sizeof(entry->name), "%s", name);
    *entry_p = entry;
    return KVASIR_OK;
}

/* ---- codecs ---- */

/* The stubs have the types of the table. */
/* NOLINTBEGIN(readability-non-const-parameter) */
static enum kvasir_status no_bound(void *state, size_t raw_bytes, size_t *bound_bytes_p)
{
    (void)state;
    (void)raw_bytes;
    (void)bound_bytes_p;
    return KVASIR_UNSUPPORTED;
}

static enum kvasir_status no_encode(void *state, const void *raw, size_t raw_bytes, void *coded,
                                    size_t capacity_bytes, size_t *coded_bytes_p)
{
    (void)state;
    (void)raw;
    (void)raw_bytes;
    (void)coded;
    (void)capacity_bytes;
    (void)coded_bytes_p;
    return KVASIR_UNSUPPORTED;
}

static enum kvasir_status no_decode(void *state, const void *coded, size_t coded_bytes, void *raw,
                                    size_t raw_bytes)
{
    (void)state;
    (void)coded;
    (void)coded_bytes;
    (void)raw;
    (void)raw_bytes;
    return KVASIR_UNSUPPORTED;
}

/* NOLINTEND(readability-non-const-parameter) */

/* As much of the table as both sides know; the rest, and what is NULL, becomes a stub. */
static void copy_codec(struct kvasir_codec_ops *to, const struct kvasir_codec_ops *from)
{
    size_t known_bytes = from->struct_size < sizeof(*to) ? from->struct_size : sizeof(*to);
    memset(to, 0, sizeof(*to));
    memcpy(to, from, known_bytes);
    to->struct_size = sizeof(*to);
    to->bound = to->bound != NULL ? to->bound : no_bound;
    to->encode = to->encode != NULL ? to->encode : no_encode;
    to->decode = to->decode != NULL ? to->decode : no_decode;
}

enum kvasir_status registry_add_codec(struct registry *registry, const struct kvasir_codec_ops *ops,
                                      void *state)
{
    struct registry_entry *entry = NULL;
    enum kvasir_status status;
    if (ops == NULL || ops->struct_size < CODEC_BYTES_MIN || !registry_name_valid(ops->name) ||
        strcmp(ops->name, "none") == 0) {
        return KVASIR_INVALID;
    }
    status = add_entry(registry, REGISTRY_CODEC, ops->name, state, &entry);
    if (status == KVASIR_OK) {
        copy_codec(&entry->ops.codec, ops);
        entry->ops.codec.name = entry->name;
    }
    return status;
}

/* ---- transports ---- */

/* A transport that can open but not close is none: nothing may be missing. */
static bool transport_complete(const struct kvasir_transport_ops *ops)
{
    bool set_up = ops->devices != NULL && ops->choose_gid != NULL && ops->domain_open != NULL &&
                  ops->domain_close != NULL && ops->domain_facts != NULL &&
                  ops->domain_fd != NULL && ops->domain_poll != NULL;
    bool memory = ops->memory_register != NULL && ops->memory_deregister != NULL &&
                  ops->memory_expose != NULL;
    bool queue = ops->queue_create != NULL && ops->queue_destroy != NULL && ops->queue_fd != NULL &&
                 ops->queue_poll != NULL && ops->queue_arm != NULL && ops->queue_stats != NULL;
    bool link = ops->link_create != NULL && ops->link_connect != NULL && ops->link_close != NULL &&
                ops->submit != NULL;
    return set_up && memory && queue && link;
}

enum kvasir_status registry_add_transport(struct registry *registry,
                                          const struct kvasir_transport_ops *ops, void *state)
{
    struct registry_entry *entry = NULL;
    enum kvasir_status status;
    if (ops == NULL || ops->struct_size < sizeof(*ops) || !registry_name_valid(ops->name) ||
        !transport_complete(ops)) {
        return KVASIR_INVALID;
    }
    status = add_entry(registry, REGISTRY_TRANSPORT, ops->name, state, &entry);
    if (status == KVASIR_OK) {
        entry->ops.transport = *ops;
        entry->ops.transport.struct_size = sizeof(*ops);
        entry->ops.transport.name = entry->name;
    }
    return status;
}

/* ---- spaces ---- */

enum kvasir_status registry_add_space(struct registry *registry, const struct kvasir_space_ops *ops,
                                      void *state)
{
    struct registry_entry *entry = NULL;
    enum kvasir_status status;
    if (ops == NULL || ops->struct_size < sizeof(*ops) || !registry_name_valid(ops->name) ||
        ops->find == NULL || ops->export_dmabuf == NULL || ops->pinned_alloc == NULL ||
        ops->pinned_free == NULL || ops->copier_open == NULL || ops->copier_close == NULL ||
        ops->copy == NULL || ops->copier_poll == NULL || ops->settle == NULL) {
        return KVASIR_INVALID;
    }
    status = add_entry(registry, REGISTRY_SPACE, ops->name, state, &entry);
    if (status == KVASIR_OK) {
        entry->ops.space = *ops;
        entry->ops.space.struct_size = sizeof(*ops);
        entry->ops.space.name = entry->name;
    }
    return status;
}

/* ---- all kinds ---- */

const struct registry_entry *registry_find(const struct registry *registry, enum registry_kind kind,
                                           struct slice name)
{
    for (unsigned i = 0; i < registry->count; i++) {
        const struct registry_entry *entry = &registry->entries[i];
        if (entry->kind == kind && slice_equal_nocase(name, entry->name)) {
            return entry;
        }
    }
    return NULL;
}

unsigned registry_count(const struct registry *registry)
{
    return registry->count;
}

void registry_cut(struct registry *registry, unsigned count)
{
    check(count <= registry->count);
    registry->count = count;
}

unsigned registry_names(const struct registry *registry, enum registry_kind kind, unsigned first,
                        char *text, size_t capacity)
{
    unsigned count = 0;
    size_t used = 0;
    check(capacity > 0);
    text[0] = '\0';
    for (unsigned i = first; i < registry->count; i++) {
        const struct registry_entry *entry = &registry->entries[i];
        const char *comma = count > 0 ? ", " : "";
        if (entry->kind != kind) {
            continue;
        }
        count++;
        if (used + strlen(comma) + strlen(entry->name) < capacity) {
            (void)snprintf(text + used, capacity - used, "%s%s", comma, entry->name);
            used += strlen(text + used);
        }
    }
    return count;
}

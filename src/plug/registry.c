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
    struct registry_entry *entry;
    if (ops == NULL || ops->struct_size < CODEC_BYTES_MIN || !registry_name_valid(ops->name) ||
        strcmp(ops->name, "none") == 0) {
        return KVASIR_INVALID;
    }
    if (registry_find(registry, REGISTRY_CODEC, slice_of_text(ops->name)) != NULL) {
        return KVASIR_EXISTS;
    }
    if (registry->count == REGISTRY_ENTRIES_MAX) {
        return KVASIR_BUSY;
    }
    entry = &registry->entries[registry->count++];
    entry->kind = REGISTRY_CODEC;
    entry->state = state;
    (void)snprintf(entry->name, sizeof(entry->name), "%s", ops->name);
    copy_codec(&entry->ops.codec, ops);
    entry->ops.codec.name = entry->name;
    return KVASIR_OK;
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

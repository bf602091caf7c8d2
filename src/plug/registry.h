#pragma once
/* registry – what modules have plugged in, by kind and name. The loader fills it in the main thread
 * before others start; from then on any thread may look. Owns its entries, which hold copies of the
 * operation tables: where a module has no operation, a stub answers KVASIR_UNSUPPORTED, so that
 * callers call without asking. */

#include "base/compiler.h"
#include "base/slice.h"

#include <kvasir/module.h>

/* More than any build of the project has; a fixed table needs no growing. */
#define REGISTRY_ENTRIES_MAX 32

enum registry_kind {
    REGISTRY_CODEC,
    REGISTRY_TRANSPORT,
    REGISTRY_SPACE
};

struct registry_entry {
    enum registry_kind kind;
    char name[KVASIR_MODULE_NAME_BYTES_MAX + 1];
    void *state; /* borrowed from the module until its teardown; first argument of each operation */
    union {
        struct kvasir_codec_ops codec;         /* complete: no operation is NULL */
        struct kvasir_transport_ops transport; /* likewise */
        struct kvasir_space_ops space;         /* likewise */
    } ops;
};

struct registry;

/* NULL: out of memory. */
struct registry *registry_create(void);
void registry_destroy(struct registry **registry_p);

/* Whether a module, or what it registers, may be called so: 1 to KVASIR_MODULE_NAME_BYTES_MAX bytes of
 * a-z 0-9 . _ + -. NULL is no name. */
bool registry_name_valid(const char *name);

/* Copies the table. KVASIR_OK, KVASIR_INVALID (no table, too short a one, no valid name, "none"),
 * KVASIR_EXISTS, KVASIR_BUSY (REGISTRY_ENTRIES_MAX are there). */
ATTR_MUST_USE enum kvasir_status
registry_add_codec(struct registry *registry, const struct kvasir_codec_ops *ops, void *state);
/* The same; a table that lacks an operation is KVASIR_INVALID. */
ATTR_MUST_USE enum kvasir_status registry_add_transport(struct registry *registry,
                                                        const struct kvasir_transport_ops *ops,
                                                        void *state);
ATTR_MUST_USE enum kvasir_status
registry_add_space(struct registry *registry, const struct kvasir_space_ops *ops, void *state);

/* Borrowed until the registry is cut or destroyed; NULL: there is none. Case is ignored. */
const struct registry_entry *registry_find(const struct registry *registry, enum registry_kind kind,
                                           struct slice name);

unsigned registry_count(const struct registry *registry);
/* Forgets all but the first count entries. */
void registry_cut(struct registry *registry, unsigned count);

/* The names of one kind from entry first on, "a, b, c", always terminated, what does not fit left out;
 * returns how many there are. */
unsigned registry_names(const struct registry *registry, enum registry_kind kind, unsigned first,
                        char *text, size_t capacity);

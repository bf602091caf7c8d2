#pragma once
/* loader – opens modules, checks them, sets them up and takes them down again. Used by the main thread
 * before others start and after they have ended; in between everything is read-only and any thread
 * may read. Owns the open files and the registry of what the modules brought. */

#include "base/compiler.h"
#include "plug/registry.h"

#include <kvasir/module.h>

#define LOADER_MODULES_MAX    16
#define LOADER_PATH_BYTES_MAX 1024
/* Holds any sentence of loader_load; one that names a very long path is cut. */
#define LOADER_SAID_BYTES 768

struct loader;

/* NULL: out of memory. server_version is borrowed for as long as the loader lives. */
struct loader *loader_create(const char *server_version);
/* Takes the modules down, the last one first. */
void loader_destroy(struct loader **loader_p);

/* Loads one module. said (always filled, also on success) is a sentence for the log about it. A module
 * that is refused leaves nothing behind. KVASIR_OK; KVASIR_NOT_FOUND (no such file), KVASIR_INVALID
 * (no module, or a malformed one), KVASIR_UNSUPPORTED (another ABI), KVASIR_EXISTS (the name is
 * taken), KVASIR_BUSY (LOADER_MODULES_MAX are there), KVASIR_IO (the file cannot be read or
 * opened), or what its setup answered (KVASIR_IO where that is no failure). */
ATTR_MUST_USE enum kvasir_status loader_load(struct loader *loader, const char *path, char *said,
                                             size_t said_capacity);

/* Loads each module of a list of paths separated by commas or blanks, and logs one line for each.
 * Returns how many were refused. */
unsigned loader_load_list(struct loader *loader, const char *paths);

struct loader_module {
    const char *name;
    const char *summary;
    const char *path;
    uint32_t version;
};
/* How many modules are loaded, and what each is; the strings live as long as the loader. */
unsigned loader_count(const struct loader *loader);
struct loader_module loader_module(const struct loader *loader, unsigned index);

/* Borrowed for as long as the loader lives. */
const struct registry *loader_registry(const struct loader *loader);

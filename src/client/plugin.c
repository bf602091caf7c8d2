#include "client/plugin.h"

#include "base/log.h"

#include <kvasir/client.h>
#include <kvasir/transport_types.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES_MAX 1024U

/* Beside the library: where it is installed, and where it is built. */
static bool find_module(const char *file_name, char *path, size_t capacity)
{
    static const char *const places[] = {"kvasir/modules", "modules"};
    Dl_info place;
    const char *slash;
    if (dladdr((const void *)places, &place) == 0 || place.dli_fname == NULL) {
        return false;
    }
    slash = strrchr(place.dli_fname, '/');
    for (size_t i = 0; slash != NULL && i < ARRAY_COUNT(places); i++) {
        int length = snprintf(path, capacity, "%.*s/%s/%s", (int)(slash - place.dli_fname),
                              place.dli_fname, places[i], file_name);
        if (length > 0 && (size_t)length < capacity && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

struct loader *plugin_load(const char *wanted, const char *file_name, char *said)
{
    char path[PATH_BYTES_MAX];
    char sentence[LOADER_SAID_BYTES];
    struct loader *loader;
    if (wanted == NULL && !find_module(file_name, path, sizeof(path))) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "there is no module %s beside the library",
                       file_name);
        return NULL;
    }
    log_set_level(LOG_ERROR); /* a library says what it has to say in its answers */
    loader = loader_create(KVASIR_VERSION);
    if (loader == NULL) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "out of memory");
        return NULL;
    }
    if (loader_load(loader, wanted != NULL ? wanted : path, sentence, sizeof(sentence)) !=
        KVASIR_OK) {
        (void)snprintf(said, KVASIR_SAID_BYTES, "%.*s", KVASIR_SAID_BYTES - 1, sentence);
        loader_destroy(&loader);
    }
    return loader;
}

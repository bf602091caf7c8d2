#include "plug/loader.h"

#include "base/check.h"
#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MODULE_MAGIC 0x6d6f64756c65736cU
/* magic, abi_version and struct_size: what every ABI version has. */
#define HEAD_BYTES offsetof(struct kvasir_module, name)

struct module {
    uint64_t magic;
    struct loader *loader;              /* borrowed: it owns us */
    char *path;                         /* owned */
    void *file;                         /* owned: what dlopen gave */
    const struct kvasir_module *object; /* borrowed from file */
    void *state;                        /* the module's own, from setup to teardown */
    bool in_setup;                      /* registering is allowed */
    struct kvasir_host host;            /* what the module is given */
};

struct loader {
    const char *server_version; /* borrowed */
    struct registry *registry;  /* owned */
    unsigned count;
    struct module
        modules[LOADER_MODULES_MAX]; /* the first count are loaded; their addresses stay */
};

/* Where loader_load's sentence goes. */
struct said {
    char *text;
    size_t capacity;
};

static enum kvasir_status refuse(const struct said *said, enum kvasir_status status,
                                 const char *format, ...) ATTR_PRINTF(3, 4);
static enum kvasir_status refuse(const struct said *said, enum kvasir_status status,
                                 const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(said->text, said->capacity, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- what a module may call ---- */

static void host_log(const struct kvasir_host *host, enum kvasir_log_level level, const char *text)
{
    const struct module *module = host != NULL ? host->context : NULL;
    enum log_level as = LOG_DEBUG;
    if (module == NULL || module->magic != MODULE_MAGIC || text == NULL) {
        return;
    }
    if (level <= KVASIR_LOG_INFO) {
        as =
            level == KVASIR_LOG_INFO ? LOG_INFO : (level == KVASIR_LOG_WARN ? LOG_WARN : LOG_ERROR);
    }
    log_line(as, "module %s: %s", module->object->name, text);
}

static enum kvasir_status host_register_codec(const struct kvasir_host *host,
                                              const struct kvasir_codec_ops *ops, void *state)
{
    struct module *module = host != NULL ? host->context : NULL;
    if (module == NULL || module->magic != MODULE_MAGIC) {
        return KVASIR_INVALID;
    }
    if (!module->in_setup) {
        return KVASIR_DENIED;
    }
    return registry_add_codec(module->loader->registry, ops, state);
}

static enum kvasir_status host_register_transport(const struct kvasir_host *host,
                                                  const struct kvasir_transport_ops *ops,
                                                  void *state)
{
    struct module *module = host != NULL ? host->context : NULL;
    if (module == NULL || module->magic != MODULE_MAGIC) {
        return KVASIR_INVALID;
    }
    if (!module->in_setup) {
        return KVASIR_DENIED;
    }
    return registry_add_transport(module->loader->registry, ops, state);
}

static enum kvasir_status host_register_space(const struct kvasir_host *host,
                                              const struct kvasir_space_ops *ops, void *state)
{
    struct module *module = host != NULL ? host->context : NULL;
    if (module == NULL || module->magic != MODULE_MAGIC) {
        return KVASIR_INVALID;
    }
    if (!module->in_setup) {
        return KVASIR_DENIED;
    }
    return registry_add_space(module->loader->registry, ops, state);
}

/* ---- loading ---- */

/* The file's full path in module->path. Only regular files: opening a pipe would wait for ever. */
static enum kvasir_status find_file(struct module *module, const char *path,
                                    const struct said *said)
{
    struct stat facts;
    module->path = realpath(path, NULL);
    if (module->path == NULL) {
        return refuse(said, errno == ENOENT ? KVASIR_NOT_FOUND : KVASIR_IO, "module %s refused: %s",
                      path, strerror(errno));
    }
    if (stat(module->path, &facts) != 0) {
        return refuse(said, KVASIR_IO, "module %s refused: %s", path, strerror(errno));
    }
    if (!S_ISREG(facts.st_mode)) {
        return refuse(said, KVASIR_INVALID, "module %s refused: it is no regular file", path);
    }
    return KVASIR_OK;
}

/* Opens the file and finds kvasir_module in it, as large as a head at least. */
static enum kvasir_status open_file(struct module *module, size_t *object_bytes_p,
                                    const struct said *said)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    void *extra = NULL;
    void *object;
    module->file = dlopen(module->path, RTLD_NOW | RTLD_LOCAL);
    if (module->file == NULL) {
        return refuse(said, KVASIR_IO, "module %s refused: it cannot be opened: %s", module->path,
                      dlerror());
    }
    object = dlsym(module->file, KVASIR_MODULE_SYMBOL);
    if (object == NULL) {
        return refuse(said, KVASIR_INVALID,
                      "module %s refused: it is no Kvasir module, it exports no %s", module->path,
                      KVASIR_MODULE_SYMBOL);
    }
    /* What has the name may be anything: a function, or a few bytes of text. */
    if (dladdr1(object, &info, &extra, RTLD_DL_SYMENT) != 0) {
        symbol = extra;
    }
    if (symbol == NULL || ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
        symbol->st_size < HEAD_BYTES) {
        return refuse(said, KVASIR_INVALID,
                      "module %s refused: it is no Kvasir module, its %s is something else",
                      module->path, KVASIR_MODULE_SYMBOL);
    }
    module->object = object;
    *object_bytes_p = symbol->st_size;
    return KVASIR_OK;
}

/* Magic, ABI version and size: nothing behind them is read before they fit. */
static enum kvasir_status check_head(const struct module *module, size_t object_bytes,
                                     const struct said *said)
{
    const struct kvasir_module *object = module->object;
    if (object->magic != KVASIR_MODULE_MAGIC) {
        return refuse(said, KVASIR_INVALID,
                      "module %s refused: it is no Kvasir module, its %s has not our magic number",
                      module->path, KVASIR_MODULE_SYMBOL);
    }
    if (object->abi_version != KVASIR_MODULE_ABI_VERSION) {
        return refuse(said, KVASIR_UNSUPPORTED,
                      "module %s refused: it was built for module ABI %u, this server has %u: "
                      "rebuild it",
                      module->path, (unsigned)object->abi_version, KVASIR_MODULE_ABI_VERSION);
    }
    if (object->struct_size != sizeof(*object) || object_bytes < sizeof(*object)) {
        return refuse(said, KVASIR_UNSUPPORTED,
                      "module %s refused: its struct kvasir_module has %zu bytes, this server's "
                      "%zu: rebuild it",
                      module->path,
                      object->struct_size != sizeof(*object) ? (size_t)object->struct_size
                                                             : object_bytes,
                      sizeof(*object));
    }
    return KVASIR_OK;
}

static enum kvasir_status check_identity(const struct module *module, const struct said *said)
{
    const struct kvasir_module *object = module->object;
    const struct loader *loader = module->loader;
    if (!registry_name_valid(object->name)) {
        return refuse(said, KVASIR_INVALID,
                      "module %s refused: its name must have 1 to %d bytes of a-z 0-9 . _ + -",
                      module->path, KVASIR_MODULE_NAME_BYTES_MAX);
    }
    if (object->summary == NULL || strnlen(object->summary, KVASIR_MODULE_SUMMARY_BYTES_MAX + 1) >
                                       KVASIR_MODULE_SUMMARY_BYTES_MAX) {
        return refuse(said, KVASIR_INVALID,
                      "module %s refused: %s must have a summary of up to %d bytes", module->path,
                      object->name, KVASIR_MODULE_SUMMARY_BYTES_MAX);
    }
    if (object->setup == NULL) {
        return refuse(said, KVASIR_INVALID, "module %s refused: %s has no setup", module->path,
                      object->name);
    }
    for (unsigned i = 0; i < loader->count; i++) {
        if (strcmp(loader->modules[i].object->name, object->name) == 0) {
            return refuse(said, KVASIR_EXISTS,
                          "module %s refused: a module %s is loaded already, from %s", module->path,
                          object->name, loader->modules[i].path);
        }
    }
    return KVASIR_OK;
}

static enum kvasir_status set_up(struct module *module, const struct said *said)
{
    const struct kvasir_module *object = module->object;
    struct registry *registry = module->loader->registry;
    unsigned before = registry_count(registry);
    char codecs[LOADER_SAID_BYTES / 4];
    char transports[LOADER_SAID_BYTES / 4];
    char spaces[LOADER_SAID_BYTES / 4];
    unsigned codec_count;
    unsigned transport_count;
    unsigned space_count;
    enum kvasir_status status;
    module->magic = MODULE_MAGIC;
    module->host = (struct kvasir_host){.struct_size = sizeof(module->host),
                                        .server_version = module->loader->server_version,
                                        .context = module,
                                        .log = host_log,
                                        .register_codec = host_register_codec,
                                        .register_transport = host_register_transport,
                                        .register_space = host_register_space};
    module->in_setup = true;
    status = object->setup(&module->host, &module->state);
    module->in_setup = false;
    if (status != KVASIR_OK) {
        registry_cut(registry, before);
        /* Nothing that is to be called back later is worth waiting for at start. */
        return refuse(said, status < 0 ? status : KVASIR_IO,
                      "module %s refused: the setup of %s failed: %s", module->path, object->name,
                      kvasir_status_name(status));
    }
    codec_count = registry_names(registry, REGISTRY_CODEC, before, codecs, sizeof(codecs));
    transport_count =
        registry_names(registry, REGISTRY_TRANSPORT, before, transports, sizeof(transports));
    space_count = registry_names(registry, REGISTRY_SPACE, before, spaces, sizeof(spaces));
    (void)snprintf(said->text, said->capacity,
                   "module %s %u.%u.%u loaded from %s: %s; codecs: %s; transports: %s; spaces: %s",
                   object->name, object->version / 10000, object->version / 100 % 100,
                   object->version % 100, module->path, object->summary,
                   codec_count > 0 ? codecs : "none", transport_count > 0 ? transports : "none",
                   space_count > 0 ? spaces : "none");
    return KVASIR_OK;
}

/* Closes what is open, without teardown. */
static void forget(struct module *module)
{
    module->magic = 0;
    if (module->file != NULL) {
        (void)dlclose(module->file);
    }
    free(module->path);
    memset(module, 0, sizeof(*module));
}

enum kvasir_status loader_load(struct loader *loader, const char *path, char *said_text,
                               size_t said_capacity)
{
    const struct said said = {.text = said_text, .capacity = said_capacity};
    struct module *module;
    size_t object_bytes = 0;
    enum kvasir_status status;
    check(said_capacity > 0);
    said_text[0] = '\0';
    if (loader->count == LOADER_MODULES_MAX) {
        return refuse(&said, KVASIR_BUSY,
                      "module %s refused: %d modules are loaded already, more are not possible",
                      path, LOADER_MODULES_MAX);
    }
    module = &loader->modules[loader->count];
    module->loader = loader;
    status = find_file(module, path, &said);
    if (status == KVASIR_OK) {
        status = open_file(module, &object_bytes, &said);
    }
    if (status == KVASIR_OK) {
        status = check_head(module, object_bytes, &said);
    }
    if (status == KVASIR_OK) {
        status = check_identity(module, &said);
    }
    if (status == KVASIR_OK) {
        status = set_up(module, &said);
    }
    if (status != KVASIR_OK) {
        forget(module);
        return status;
    }
    loader->count++;
    return KVASIR_OK;
}

unsigned loader_load_list(struct loader *loader, const char *paths)
{
    static const char between[] = ", \t";
    unsigned refused = 0;
    char path[LOADER_PATH_BYTES_MAX];
    char said[LOADER_SAID_BYTES];
    for (paths += strspn(paths, between); *paths != '\0'; paths += strspn(paths, between)) {
        size_t length_bytes = strcspn(paths, between);
        if (length_bytes >= sizeof(path)) {
            log_error("module %.100s… refused: its path has more than %d bytes", paths,
                      LOADER_PATH_BYTES_MAX - 1);
            refused++;
        } else {
            (void)snprintf(path, sizeof(path), "%.*s", (int)length_bytes, paths);
            if (loader_load(loader, path, said, sizeof(said)) == KVASIR_OK) {
                log_info("%s", said);
            } else {
                log_error("%s; the server goes on without it", said);
                refused++;
            }
        }
        paths += length_bytes;
    }
    return refused;
}

/* ---- life, and what there is ---- */

struct loader *loader_create(const char *server_version)
{
    struct loader *loader = calloc(1, sizeof(*loader));
    if (loader == NULL) {
        return NULL;
    }
    loader->server_version = server_version;
    loader->registry = registry_create();
    if (loader->registry == NULL) {
        free(loader);
        return NULL;
    }
    return loader;
}

void loader_destroy(struct loader **loader_p)
{
    struct loader *loader = *loader_p;
    if (loader == NULL) {
        return;
    }
    /* Nothing may be found any more that is about to go. */
    registry_cut(loader->registry, 0);
    while (loader->count > 0) {
        struct module *module = &loader->modules[--loader->count];
        if (module->object->teardown != NULL) {
            module->object->teardown(module->state);
        }
        forget(module);
    }
    registry_destroy(&loader->registry);
    free(loader);
    *loader_p = NULL;
}

unsigned loader_count(const struct loader *loader)
{
    return loader->count;
}

struct loader_module loader_module(const struct loader *loader, unsigned index)
{
    const struct module *module = &loader->modules[index];
    check(index < loader->count);
    return (struct loader_module){.name = module->object->name,
                                  .summary = module->object->summary,
                                  .path = module->path,
                                  .version = module->object->version};
}

const struct registry *loader_registry(const struct loader *loader)
{
    return loader->registry;
}

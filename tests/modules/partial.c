/* partial – a module with tables that lack operations, and with a state that teardown must
 * give back. */

#include <kvasir/module.h>

#include <stddef.h>
#include <stdlib.h>

static enum kvasir_status answer(void *state, size_t raw_bytes, size_t *bound_bytes_p)
{
    *bound_bytes_p = raw_bytes + *(const unsigned char *)state;
    return KVASIR_OK;
}

static const struct kvasir_codec_ops BOUND_ONLY = {
    .struct_size = sizeof(BOUND_ONLY),
    .name = "bound-only",
    .bound = answer,
};

/* As from a header in which bound was the last operation: what lies behind is not read. */
static const struct kvasir_codec_ops SHORT = {
    .struct_size = offsetof(struct kvasir_codec_ops, encode),
    .name = "short",
    .bound = answer,
};

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    unsigned char *state = malloc(1);
    if (state == NULL) {
        return KVASIR_NO_MEMORY;
    }
    *state = 5;
    if (host->register_codec(host, &BOUND_ONLY, state) != KVASIR_OK ||
        host->register_codec(host, &SHORT, state) != KVASIR_OK ||
        host->register_codec(host, &SHORT, state) != KVASIR_EXISTS) {
        free(state);
        return KVASIR_INVALID;
    }
    *state_p = state;
    return KVASIR_OK;
}

/* A state that is not given back here is a leak that a sanitizer reports. */
static void teardown(void *state)
{
    free(state);
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "partial",
    .summary = "codecs that lack operations",
    .version = KVASIR_MODULE_VERSION(0, 10, 20),
    .setup = setup,
    .teardown = teardown,
};

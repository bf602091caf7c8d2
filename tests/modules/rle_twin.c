/* rle_twin – another file that says it is the module rle. */

#include <kvasir/module.h>

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    (void)host;
    *state_p = NULL;
    return KVASIR_OK;
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "rle",
    .summary = "has a name that another has",
    .version = KVASIR_MODULE_VERSION(0, 0, 1),
    .setup = setup,
};

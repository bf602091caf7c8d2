/* no_summary – a module that does not say what it is. */

#include <kvasir/module.h>

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    (void)host;
    *state_p = NULL;
    return KVASIR_OK;
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "no-summary",
    .setup = setup,
};

/* bad_name – a module with a name that no log should show. */

#include <kvasir/module.h>

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    (void)host;
    *state_p = NULL;
    return KVASIR_OK;
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "Bad name",
    .summary = "has a blank in its name",
    .setup = setup,
};

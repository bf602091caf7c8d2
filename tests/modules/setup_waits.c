/* setup_waits – a module whose setup gives an answer that is no end. */

#include <kvasir/module.h>

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    (void)host;
    (void)state_p;
    return KVASIR_PENDING;
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "setup-waits",
    .summary = "says it will call back",
    .setup = setup,
};

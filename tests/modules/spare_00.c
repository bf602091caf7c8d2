/* spare_00 – a module that brings nothing. Its name stands once in the file, so that a test can make
 * copies of other names. */

#include <kvasir/module.h>

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    (void)host;
    *state_p = NULL;
    return KVASIR_OK;
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "spare-00",
    .summary = "brings nothing",
    .setup = setup,
};

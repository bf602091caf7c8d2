/* no_setup – a module that cannot be set up. */

#include <kvasir/module.h>

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "no-setup",
    .summary = "has no setup",
};

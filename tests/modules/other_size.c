/* other_size – a module whose header was another than its ABI version says. */

#include <kvasir/module.h>

const struct kvasir_module kvasir_module = {
    .magic = KVASIR_MODULE_MAGIC,
    .abi_version = KVASIR_MODULE_ABI_VERSION,
    .struct_size = sizeof(struct kvasir_module) + 8,
    .name = "other-size",
    .summary = "says it is longer than it is",
};

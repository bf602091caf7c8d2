/* other_magic – a module but for its first bytes. */

#include <kvasir/module.h>

const struct kvasir_module kvasir_module = {
    .magic = UINT64_C(0x1122334455667788),
    .abi_version = KVASIR_MODULE_ABI_VERSION,
    .struct_size = sizeof(struct kvasir_module),
};

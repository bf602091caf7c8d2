/* other_abi – a module of a later day: only its head may be read. */

#include <kvasir/module.h>

struct later {
    uint64_t magic;
    uint32_t abi_version;
    uint32_t struct_size;
};

KVASIR_API extern const struct later later_module __asm__("kvasir_module");

const struct later later_module = {
    .magic = KVASIR_MODULE_MAGIC,
    .abi_version = KVASIR_MODULE_ABI_VERSION + 7,
    .struct_size = sizeof(struct later),
};

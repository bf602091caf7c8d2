/* unresolved – a module that needs a function nobody has, as one does whose library is missing. */

#include <kvasir/module.h>

extern enum kvasir_status nobody_has_this(const struct kvasir_host *host, void **state_p);

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "unresolved",
    .summary = "needs what is not there",
    .setup = nobody_has_this,
};

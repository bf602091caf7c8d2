/* setup_fails – a module that registers a codec and then finds that it cannot work here. */

#include <kvasir/module.h>

static const struct kvasir_codec_ops OPS = {.struct_size = sizeof(OPS), .name = "left-behind"};

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    (void)state_p;
    if (host->register_codec(host, &OPS, NULL) != KVASIR_OK) {
        return KVASIR_INVALID;
    }
    host->log(host, KVASIR_LOG_WARN, "there is no such device here");
    return KVASIR_UNSUPPORTED;
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD,
    .name = "setup-fails",
    .summary = "registers, and then fails",
    .version = KVASIR_MODULE_VERSION(1, 0, 0),
    .setup = setup,
};

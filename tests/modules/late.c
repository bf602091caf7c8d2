/* late – a module that registers after its setup has ended: in teardown, where it sees what it is
 * answered and says so in the log. */

#include <kvasir/module.h>

#include <string.h>

static const struct kvasir_codec_ops OPS = {.struct_size = sizeof(OPS), .name = "late"};

static enum kvasir_status setup(const struct kvasir_host *host, void **state_p)
{
    memcpy(state_p, &host, sizeof(host));
    return KVASIR_OK;
}

static void teardown(void *state)
{
    const struct kvasir_host *host = state;
    host->log(host, KVASIR_LOG_WARN,
              host->register_codec(host, &OPS, NULL) == KVASIR_DENIED ? "too late" : "not refused");
}

const struct kvasir_module kvasir_module = {
    KVASIR_MODULE_HEAD, .name = "late",       .summary = "registers when setup is over",
    .setup = setup,     .teardown = teardown,
};

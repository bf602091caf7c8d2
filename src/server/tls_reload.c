#include "server/tls_reload.h"

#include "base/log.h"
#include "net/tls_context.h"
#include "server/batch.h"
#include "server/reactor.h"

#include <stdio.h>
#include <strings.h>

enum kvasir_status tls_reload_context(const struct settings *settings, char *error,
                                      size_t error_capacity, struct ssl_ctx_st **context_p)
{
    struct tls_config config = {
        .cert_file = settings->tls_cert_file,
        .key_file = settings->tls_key_file,
        .key_file_pass = settings->tls_key_file_pass,
        .ca_cert_file = settings->tls_ca_cert_file,
        .ca_cert_dir = settings->tls_ca_cert_dir,
        .auth_clients = settings->tls_auth_clients,
        .protocols = settings->tls_protocols,
        .ciphers = settings->tls_ciphers,
        .ciphersuites = settings->tls_ciphersuites,
        .prefer_server_ciphers = settings->tls_prefer_server_ciphers,
        .session_caching = settings->tls_session_caching,
        .session_timeout_s = settings->tls_session_cache_timeout,
    };
    return tls_context_create(&config, error, error_capacity, context_p);
}

/* All tls-… options but the deadline, which is read when it is looked at. */
static bool names_tls(const struct request *request)
{
    for (uint32_t i = 2; i < request->arg_count; i += 2) {
        struct slice name = request->args[i];
        if (name.length_bytes > 4 && strncasecmp((const char *)name.data, "tls-", 4) == 0 &&
            !slice_equal_nocase(name, "tls-handshake-timeout-ms")) {
            return true;
        }
    }
    return false;
}

bool tls_reload_begin(struct reactor *reactor, const struct request *request,
                      const struct settings *tried, char *error, size_t error_capacity,
                      struct ssl_ctx_st **context_p)
{
    struct gate *gate = &reactor->server->tls_gate;
    *context_p = NULL;
    if (reactor->tls.context == NULL || !names_tls(request)) {
        return true;
    }
    if (!gate_try(gate)) {
        (void)snprintf(error, error_capacity,
                       "another CONFIG SET of TLS options is under way: try again");
        return false;
    }
    if (tls_reload_context(tried, error, error_capacity, context_p) != KVASIR_OK) {
        gate_leave(gate);
        return false;
    }
    return true;
}

void tls_reload_apply(struct reactor *reactor, struct ssl_ctx_st *context)
{
    tls_maker_renew(&reactor->tls, tls_context_get(context));
}

void tls_reload_end(struct reactor *reactor, struct ssl_ctx_st **context_p)
{
    if (*context_p != NULL) {
        log_info("TLS certificates and options renewed");
        tls_context_put(context_p);
        gate_leave(&reactor->server->tls_gate);
    }
}

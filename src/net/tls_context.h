#pragma once
/* tls_context – what all TLS connections share: certificate, key, whom to trust, which protocols and
 * ciphers (an SSL_CTX of OpenSSL). Made by main or by the reactor that serves CONFIG SET; never
 * changed afterwards, so that any thread may make connections with it. Shared by count: each reactor
 * and each connection holds it. Resumption is by tickets, so it keeps nothing for past clients. */

#include <kvasir/types.h>

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ssl_ctx_st;

/* In the terms of the options of the same names. Borrowed texts, "" where there is none. */
struct tls_config {
    const char *cert_file;
    const char *key_file;
    const char *key_file_pass;
    const char *ca_cert_file;
    const char *ca_cert_dir;
    const char *auth_clients; /* no, optional or yes */
    const char *protocols;    /* TLSv1.2 and TLSv1.3; "": both */
    const char *ciphers;
    const char *ciphersuites;
    bool prefer_server_ciphers;
    bool session_caching;
    uint64_t session_timeout_s;
};

/* Reads the files. On failure error names the option, what is wrong with it and the fix. KVASIR_OK,
 * KVASIR_INVALID, KVASIR_NO_MEMORY. */
ATTR_MUST_USE enum kvasir_status tls_context_create(const struct tls_config *config, char *error,
                                                    size_t error_capacity,
                                                    struct ssl_ctx_st **context_p);
/* One more holder, which gives it back with tls_context_put. */
struct ssl_ctx_st *tls_context_get(struct ssl_ctx_st *context);
void tls_context_put(struct ssl_ctx_st **context_p);

#pragma once
/* tls_reload – from the tls-… options to what connections are made with: at start, and when CONFIG SET
 * names one of the options (also with its old value: the files may be new). Connections that are open
 * keep what they began with. */

#include <kvasir/types.h>

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

struct gather;
struct reactor;
struct request;
struct settings;
struct ssl_ctx_st;

/* As tls_context_create. */
ATTR_MUST_USE enum kvasir_status tls_reload_context(const struct settings *settings, char *error,
                                                    size_t error_capacity,
                                                    struct ssl_ctx_st **context_p);

/* CONFIG SET, before anything is applied: reads the files if the request names a TLS option and there
 * is a tls-port. *context_p is NULL if not. False: error says why; nothing has changed. With a context
 * the caller holds the gate until tls_reload_end. */
ATTR_MUST_USE bool tls_reload_begin(struct reactor *reactor, const struct request *request,
                                    const struct settings *tried, char *error,
                                    size_t error_capacity, struct ssl_ctx_st **context_p);
/* On each reactor: new connections are made with it. */
void tls_reload_apply(struct reactor *reactor, struct ssl_ctx_st *context);
/* The caller's count goes, and the gate opens. NULL in is fine. */
void tls_reload_end(struct reactor *reactor, struct ssl_ctx_st **context_p);

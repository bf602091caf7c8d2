#pragma once
/* accept – a reactor's listeners: the shared port, its own, the shared and its own Unix socket, the
 * TLS port; and the clients that are refused before they are connections. Used by main until the
 * reactor runs, then by the reactor. Owns the listeners, but for the shared Unix socket. */

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

struct reactor;

/* Opens what the settings say. False: error holds the sentence. */
ATTR_MUST_USE bool accept_open(struct reactor *reactor, char *error, size_t error_capacity);
/* Nobody is accepted any more. */
void accept_stop(struct reactor *reactor);
void accept_close(struct reactor *reactor);

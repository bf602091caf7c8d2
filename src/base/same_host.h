#pragma once
/* same_host – TCP between two processes of one machine. Called by whoever accepts or makes connections;
 * owns nothing. */

#include <stdbool.h>

/* True when the connected TCP socket's two ends are one host: both ends carry the same address. */
bool same_host_is(int descriptor);

/* Bounds what a connected TCP socket holds unread if its two ends are one host; leaves others alone. */
void same_host_bound_send(int descriptor);

#pragma once
/* secret – which arguments of a request nobody else may see: passwords. For what shows requests to
 * others (SLOWLOG, MONITOR, logs). Any thread. */

#include "proto/command_table.h"

/* The first argument that is to be hidden, with all behind it; arg_count: none. */
uint32_t secret_from(const struct command *command, const struct slice *args, uint32_t arg_count);

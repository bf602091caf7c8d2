#include "server/secret.h"

#include <string.h>

/* Options whose values are secrets. */
static bool is_secret_option(struct slice name)
{
    return slice_equal_nocase(name, "requirepass") || slice_equal_nocase(name, "masterauth") ||
           slice_equal_nocase(name, "tls-key-file-pass");
}

uint32_t secret_from(const struct command *command, const struct slice *args, uint32_t arg_count)
{
    if (strcmp(command->name, "auth") == 0) {
        return 1;
    }
    if (strcmp(command->name, "acl|setuser") == 0) {
        return 2;
    }
    if (strcmp(command->name, "kv.put") == 0 || strcmp(command->name, "kv.get") == 0) {
        /* Whoever has the keys of a client's memory may write there. */
        for (uint32_t i = 2; i < arg_count; i++) {
            if (slice_equal_nocase(args[i], "from") || slice_equal_nocase(args[i], "into")) {
                return i + 1;
            }
        }
    }
    if (strcmp(command->name, "hello") == 0) {
        for (uint32_t i = 2; i < arg_count; i++) {
            if (slice_equal_nocase(args[i], "auth")) {
                return i + 1;
            }
        }
    }
    if (strcmp(command->name, "config|set") == 0) {
        for (uint32_t i = 2; i + 1 < arg_count; i += 2) {
            if (is_secret_option(args[i])) {
                return i + 1;
            }
        }
    }
    return arg_count;
}

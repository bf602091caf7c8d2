/* fuzz_server – whatever is sent to the whole server (tests/world), every answer is well-formed RESP, and
 * when the connections have ended nothing is held.
 *
 * The input is what the connections send. 0xff N is no part of it: turns are run, and from there on
 * the bytes go to connection N mod 3; N with 0x80 ends the connection first and opens it anew, on the
 * other reactor. */

#include "../world/world.h"
#include "base/log.h"

#include <signal.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes);

/* DEBUG SLEEP does what it is told. */
static bool sleeps(const uint8_t *data, size_t length_bytes)
{
    for (size_t i = 0; i + 5 <= length_bytes; i++) {
        if (strncasecmp((const char *)data + i, "sleep", 5) == 0) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length_bytes)
{
    struct world world = {0};
    uint32_t to = 0;
    size_t at = 0;
    if (sleeps(data, length_bytes)) {
        return 0;
    }
    (void)signal(SIGTERM, SIG_IGN); /* SHUTDOWN */
    log_set_level(LOG_ERROR);
    world_open(&world, "prefix");
    while (at < length_bytes) {
        const uint8_t *mark = memchr(data + at, 0xff, length_bytes - at);
        size_t end = mark != NULL ? (size_t)(mark - data) : length_bytes;
        (void)world_send(&world, &world.clients[to], data + at, end - at);
        world_run(&world);
        if (end + 1 < length_bytes) {
            uint8_t order = data[end + 1];
            to = (order & 0x7fU) % WORLD_CLIENTS;
            if ((order & 0x80U) != 0 || !world_has(&world, &world.clients[to])) {
                world_close_client(&world, &world.clients[to]);
                world.clients[to].reactor ^= 1U;
                (void)world_open_client(&world, &world.clients[to]);
            }
        }
        at = end + 2;
    }
    world_close(&world);
    return 0;
}

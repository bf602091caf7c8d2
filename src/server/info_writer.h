#pragma once
/* info_writer – the lines of INFO as they are written: "name:value". Used by the units that write
 * INFO's sections, on the connection's thread. Owns nothing. */

#include "base/compiler.h"
#include "server/gather.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct command_stats;
struct server;
struct totals;

struct info_writer {
    struct conn *conn;
    const struct totals *totals;
    const struct command_stats *commands; /* of all reactors */
    const struct gather *gather;          /* what the reactors answered */
    struct gather_answer *text;
    bool failed; /* no memory for the text */
};

void info_line(struct info_writer *writer, const char *format, ...) ATTR_PRINTF(2, 3);
void info_number(struct info_writer *writer, const char *name, uint64_t value);
/* The number as people read it: 1.00M. */
void info_human(struct info_writer *writer, const char *name, uint64_t value);
/* Fields of Redis that are always 0 here, names separated by blanks: what they count does not exist. */
void info_zeros(struct info_writer *writer, const char *names);

/* Memory of the process, as the system counts it. */
uint64_t info_resident_bytes(void);
/* What anybody in the process has from the heap; known_bytes if that is more: neither every C library nor
 * sanitizers tell. Walks the free pieces: not for every turn. */
uint64_t info_heap_bytes(uint64_t known_bytes);
/* Of the tables of both pools. */
uint64_t info_table_bytes(const struct server *server);

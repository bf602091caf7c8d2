#pragma once
/* proximity – how far a buffer's memory is from a device, by the machine's memory nodes. For what is
 * registered once and moved often: it asks the kernel and reads /sys. Any thread; owns nothing. */

#include <stddef.h>

/* As the tables of firmware count (ACPI 6.5, 5.2.17, System Locality Information Table): a node from
 * itself, and from one that it does not reach. */
#define PROXIMITY_LOCAL 10U
#define PROXIMITY_FAR   255U

/* The node that holds the buffer, by its first, middle and last page, which are there already; -1: they are on
 * several, or the kernel does not tell. */
int proximity_node(const void *base, size_t bytes);
/* Between two nodes, from PROXIMITY_LOCAL to PROXIMITY_FAR. PROXIMITY_LOCAL where one is unknown (-1):
 * nothing speaks against it then. PROXIMITY_FAR where /sys, which is below root ("" but for tests), does not
 * know one of two different nodes. */
unsigned proximity_distance(const char *root, int from, int to);

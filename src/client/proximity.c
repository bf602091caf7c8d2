#include "client/proximity.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/mempolicy.h, which is not installed everywhere: the node of the page at an address. */
#define MPOL_NODE_OF_ADDRESS 3UL
#define PATH_BYTES           256
/* A table has so many columns at most, of three digits and a blank. */
#define COLUMNS_MAX 512

static int node_of_page(const uint8_t *address)
{
    int node = -1;
    return syscall(SYS_get_mempolicy, &node, NULL, 0UL, address, MPOL_NODE_OF_ADDRESS) == 0 ? node
                                                                                            : -1;
}

int proximity_node(const void *base, size_t bytes)
{
    const uint8_t *first = base;
    int node = bytes > 0 ? node_of_page(first) : -1;
    return node >= 0 && node_of_page(first + bytes / 2) == node &&
                   node_of_page(first + bytes - 1) == node
               ? node
               : -1;
}

static void name_node(const char *root, int node, const char *file, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "%s/sys/devices/system/node/node%d%s", root, node, file);
}

/* The columns of a node's distances are the nodes that there are, in order. -1: not one of them. */
static int column_of(const char *root, int node)
{
    char path[PATH_BYTES];
    int column = 0;
    for (int i = 0; i < node; i++) {
        name_node(root, i, "", path);
        column += access(path, F_OK) == 0;
    }
    name_node(root, node, "", path);
    return access(path, F_OK) == 0 && column < COLUMNS_MAX ? column : -1;
}

/* The number in a column; 0: there is none. */
static unsigned long number_at(const char *text, int column)
{
    unsigned long number = 0;
    for (int i = 0; i <= column; i++) {
        char *end;
        number = strtoul(text, &end, 10);
        if (end == text) {
            return 0;
        }
        text = end;
    }
    return number;
}

unsigned proximity_distance(const char *root, int from, int to)
{
    char path[PATH_BYTES];
    char text[4 * COLUMNS_MAX] = "";
    int column;
    FILE *file;
    if (from < 0 || to < 0 || from == to) {
        return PROXIMITY_LOCAL;
    }
    column = column_of(root, to);
    name_node(root, from, "/distance", path);
    file = column >= 0 ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return PROXIMITY_FAR;
    }
    if (fgets(text, sizeof(text), file) == NULL) {
        text[0] = '\0';
    }
    (void)fclose(file);
    unsigned long number = number_at(text, column);
    return number > PROXIMITY_LOCAL && number < PROXIMITY_FAR ? (unsigned)number : PROXIMITY_FAR;
}

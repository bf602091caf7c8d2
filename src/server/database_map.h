#pragma once
/* database_map – which database of the shards is meant by the number that clients know it by: SWAPDB
 * exchanges two. Changed only by who holds all shards (reactor_hold_shards), read by any thread: a
 * request looks once, when it is read, and keeps what it found over all its rounds. */

#include "base/metric.h"

#define DATABASE_MAP_MAX 64

/* Words that are never torn; whoever has heard of an exchange has heard it from a client, and sees it. */
struct database_map {
    struct metric places[DATABASE_MAP_MAX];
};

static inline void database_map_init(struct database_map *map)
{
    for (unsigned i = 0; i < DATABASE_MAP_MAX; i++) {
        metric_set(&map->places[i], i);
    }
}

static inline uint8_t database_map_place(const struct database_map *map, uint8_t number)
{
    return (uint8_t)metric_get(&map->places[number]);
}

static inline void database_map_swap(struct database_map *map, uint8_t first, uint8_t second)
{
    uint8_t place = database_map_place(map, first);
    metric_set(&map->places[first], database_map_place(map, second));
    metric_set(&map->places[second], place);
}

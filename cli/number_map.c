/* A map of numbers: see number_map.h. An entry that was removed keeps its slot until the table
 * grows, so that probing needs no tombstones of another kind. */
#include "number_map.h"

#include <stdlib.h>

#include "cli.h"

/* Returns the slot of a key, or the free slot where it belongs. */
static struct number_entry *map_place(const struct number_map *map, uint64_t key) {
    uint64_t mixed = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(mixed >> 20) & (map->room - 1);
    while (map->table[i].is_used && map->table[i].key != key) {
        i = (i + 1) & (map->room - 1);
    }
    return &map->table[i];
}

static void map_grow(struct number_map *map) {
    size_t live = 0;
    for (size_t i = 0; i < map->room; i++) {
        live += map->table[i].is_used && map->table[i].value;
    }
    struct number_map larger = {.room = map->room ? map->room : 64};
    while (4 * (live + 1) > larger.room) {
        larger.room *= 2;
    }
    larger.table = cli_alloc(larger.room * sizeof *larger.table);
    for (size_t i = 0; i < map->room; i++) {
        if (map->table[i].is_used && map->table[i].value) {
            *map_place(&larger, map->table[i].key) = map->table[i];
        }
    }
    larger.used = live;
    free(map->table);
    *map = larger;
}

uint64_t number_map_get(const struct number_map *map, uint64_t key) {
    const struct number_entry *entry = map->room ? map_place(map, key) : NULL;
    return entry && entry->is_used ? entry->value : 0;
}

void number_map_set(struct number_map *map, uint64_t key, uint64_t value) {
    if (2 * (map->used + 1) > map->room) {
        map_grow(map);
    }
    struct number_entry *entry = map_place(map, key);
    map->used += !entry->is_used;
    *entry = (struct number_entry){key, value, true};
}

void number_map_free(struct number_map *map) {
    free(map->table);
    *map = (struct number_map){0};
}

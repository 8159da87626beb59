/* A map from 64-bit numbers to 64-bit values, for readers: a hash table with linear probing, at
 * most half full. A value of 0 is the same as no entry. A zeroed map is empty. */
#ifndef ACRE_CLI_NUMBER_MAP_H
#define ACRE_CLI_NUMBER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct number_entry {
    uint64_t key, value;
    bool is_used;
};

struct number_map {
    struct number_entry *table;
    size_t room, used; /* room: a power of two, or 0; used: slots with a key, whatever its value */
};

/* Returns the value of a key, or 0. */
uint64_t number_map_get(const struct number_map *map, uint64_t key);
/* Sets the value of a key; 0 removes it. */
void number_map_set(struct number_map *map, uint64_t key, uint64_t value);
void number_map_free(struct number_map *map);

#endif

/* Accounts of live memory by one key of the blocks: a tag, a pool, a call stack, a stream. There is
 * one account for each value of the key. */
#ifndef ACRE_CLI_ACCOUNTS_H
#define ACRE_CLI_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct account {
    uint64_t value; /* of the key */
    uint64_t bytes, blocks, peak_bytes, allocations;
    uint64_t allocated_bytes; /* by all allocations and reallocs */
    uint64_t at_peak_bytes, at_peak_blocks;
    uint32_t group; /* for the caller; 0 at first */
    bool is_used;
};

struct accounts {
    struct account *table;
    size_t room, count; /* room: a power of two, or 0 */
};

/* Returns the account of a value; creates it at first use. It moves when another one is created. */
struct account *account_of(struct accounts *accounts, uint64_t value);

/* Counts a block that is live from now on. `is_new`: it was allocated, not reallocated. */
void account_alloc(struct account *account, uint64_t bytes, bool is_new);
/* Counts a block that is freed, or replaced by a realloc. */
void account_free(struct account *account, uint64_t bytes);

/* Returns a copy of the accounts, the largest peak first; the caller frees it. */
struct account *accounts_sorted(const struct accounts *accounts);

void accounts_end(struct accounts *accounts);

#endif

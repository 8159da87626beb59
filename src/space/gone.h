/* Addresses that acre freed: the ranges of the last blocks that left the book (book.h).
 *
 * A copy that uses one of them would crash in memcpy or in the driver. The records let a call say
 * instead that the memory was freed. A record ends when a new block gets its addresses. The program
 * may also get them again from CUDA or from malloc, without acre: so a hit is a suspicion, which
 * acre__book_look_live verifies. There are at most GONE_MOST records; a new one then replaces the
 * oldest one. The book's lock guards them. */
#ifndef ACRE_SPACE_GONE_H
#define ACRE_SPACE_GONE_H

#include <stddef.h>
#include <stdint.h>

/* A range of addresses that were freed. */
struct acre__gone_range {
    uint64_t at, bytes;
};

/* Records that a range was freed. */
void acre__gone_add(uint64_t at, uint64_t bytes);

/* Forgets a range: it is in use again. */
void acre__gone_cut(uint64_t at, uint64_t bytes);

/* Finds a recorded range that shares an address with the given one: the range that has its first
 * address, else the last one. Returns 0 if there is none. */
int acre__gone_find(uint64_t at, uint64_t bytes, struct acre__gone_range *range);

/* Returns 1 if the host can read both ends of a range. Takes no lock. */
int acre__gone_is_readable(uint64_t at, uint64_t bytes);

#endif

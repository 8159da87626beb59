/* A thread's memory of stacks that it captured last, so that the same stack need not be unwound
 * again. */
#ifndef ACRE_BASE_STACK_MEMO_H
#define ACRE_BASE_STACK_MEMO_H

#include <stdint.h>

#include "base/parse.h"

/* Functions that read frames of their callers, which a sanitizer may have marked as not to be read.
 */
#define ACRE__READS_STACK __attribute__((no_sanitize_address))

/* A captured stack: its return addresses, and for each the address that it was read from, or an
 * upper bound of it. */
struct acre__walk {
    unsigned count;
    uintptr_t frames[ACRE__STACK_MOST];
    uintptr_t ends[ACRE__STACK_MOST]; /* the return address is stored below */
};

/* Returns the number of the remembered stack whose innermost return address is stored at `slot`, if
 * all its return addresses are still where they were; else 0. */
uint32_t acre__stack_recall(const uintptr_t *slot);

/* Remembers a stack. Does nothing if a return address is not found in memory, or out of host
 * memory. */
void acre__stack_remember(const uintptr_t *slot, const struct acre__walk *walk, uint32_t stack);

#endif

/* Counts calls of functions that get or free memory and that the shim does not record (COUNT in
 * shim_classes.h), so that a report says what it does not contain.
 *
 * The counting code knows neither the number nor the types of a function's parameters: it adds 1
 * and jumps to the driver's function with all parameters in place. Threads: any. Locks: none, but
 * the first call of a function takes that of the records. */
#ifndef ACRE_SHIM_SHIM_COUNT_H
#define ACRE_SHIM_SHIM_COUNT_H

#include "driver/driver.h"
#include "shim_classes.h"

/* The counting code of each function, which shim.map exports under the driver's own name. */
#define SHIM_COUNT_CODE(symbol) void acre__count_##symbol(void);
SHIM_COUNTED(SHIM_COUNT_CODE)
#undef SHIM_COUNT_CODE

/* Counts calls of hooks whose memory is not recorded, either: code, and graphs. */
void acre__count_wrap(struct acre__driver *table, const struct acre__driver *inner);

/* Adds 1 to the counter of a function, if there is a report. */
void acre__count_call(const char *name);

/* In a forked child: counts from 0, since the child has its own records. */
void acre__count_forget(void);

#endif

/*
 * Counts the bytes that a driver's copies move, and the calls that allocate or release physical
 * memory. The bytes show whether something grew by copying, no matter which layer requested the
 * copy. A program in a steady state makes no calls for physical memory.
 */
#ifndef ACRE_DRIVER_DRIVER_COUNT_H
#define ACRE_DRIVER_DRIVER_COUNT_H

#include "driver/driver.h"

/*
 * Replaces the table's copies (cuMemcpy and its variants; fills are not copies) and the functions
 * marked COUNTED in driver_list.h by counting functions. Sets the table's `copied_bytes` and
 * `calls`, and keeps the driver's original functions. A copy that the driver refuses is not
 * counted; a copy that a stream only records, for a capture, is. Calls for memory are counted
 * whether they succeed or fail. The cost is one addition per copy or call.
 *
 * There are two slots, one for soft drivers and one for others, since a driver function has no
 * pointer to its table. Counting a second table of the same kind makes the first one call the
 * second one's driver. A table that already counts is left unchanged.
 * Threads: call it before the table is returned to others.
 */
void acre__driver_count(struct acre__driver *table);

#endif

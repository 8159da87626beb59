/*
 * Counts the bytes that a driver's copies move: the one number that says whether something grew by
 * copying, whoever asked for the copy; and the calls that get and give physical memory, which a
 * program in a steady state makes none of.
 */
#ifndef ACRE_DRIVER_DRIVER_COUNT_H
#define ACRE_DRIVER_DRIVER_COUNT_H

#include "driver/driver.h"

/*
 * Puts counting functions in the place of the table's copies (cuMemcpy and its forms; fills are not
 * copies) and of the functions whose calls are counted (driver_list.h), and sets its `copied_bytes`
 * and `calls`. The driver's own functions are kept aside. A copy that the driver refuses is not
 * counted; one that a stream only records, for a capture, is. Calls for memory count when they are
 * made, refused or not. It costs an addition a copy or call.
 *
 * There are two slots, one for soft drivers and one for others, since a driver function carries no
 * pointer to its table: counting another table of the same sort makes the one before call into this
 * one's driver. A table that counts already is left as it is.
 * Threads: before the table is handed out.
 */
void acre__driver_count(struct acre__driver *table);

#endif

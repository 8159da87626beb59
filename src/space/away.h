/* Takes the physical memory of mappings away, and brings it back at the same addresses
 * (acre_suspend). Contents are the caller's business.
 *
 * The functions run inside a move (mapped.h), after all work of the device has ended. Bringing
 * memory back that nobody else may bring back needs the inside of the gate only: nobody uses it. */
#ifndef ACRE_SPACE_AWAY_H
#define ACRE_SPACE_AWAY_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "device/held.h"
#include "space/mapping.h"

/* Mappings of one device by rising address. If it has one mapping of a chunk, it has all. */
struct acre__away {
    acre_device *dev;
    struct acre__mapping **mappings;
    size_t count;
};

/* Unmaps everything; chunks keep their memory. All or nothing: after a failure everything is mapped
 * again. If the driver refuses that, too, the set then consists of the mappings that could not be
 * mapped again, and the function returns ACRE_OK: those are away. */
acre_status acre__away_unmap(struct acre__away *away);

/* Releases the memory of unmapped chunks. Returns the bytes released: memory that the driver
 * refuses to release stays. */
uint64_t acre__away_release(const struct acre__away *away);

/* Creates memory, within the limits of the device, and maps it. All or nothing. The mappings are
 * still away until acre__away_end. On ACRE_E_DEVICE_MEMORY the detail has the bytes that are
 * missing. */
acre_status acre__away_map(const struct acre__away *away, enum acre__held_for why);
/* Undoes acre__away_map. */
void acre__away_undo(const struct acre__away *away);
/* The contents are there: the mappings are as before. */
void acre__away_end(const struct acre__away *away);

#endif

/* Device hooks of sharing: closing a device closes its shares and imports, and statistics count
 * them. */
#ifndef ACRE_SHARE_HOOKS_H
#define ACRE_SHARE_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* Entry check of functions that create a share or an import: acre__device_enter, and registers the
 * device hooks. */
acre_status acre__share_enter(acre_device *dev);

/* ACRE_E_UNSUPPORTED if the device cannot export and import chunks; chunk sizes are multiples of
 * *unit. */
acre_status acre__share_unit(acre_device *dev, size_t *unit);

/* Called by the hooks, for import.c. */
void acre__import_end_all(acre_device *dev);
uint64_t acre__import_count(acre_device *dev);

#endif

/* What sharing has to do with devices: both sides end with them, and are counted. */
#ifndef ACRE_SHARE_HOOKS_H
#define ACRE_SHARE_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* How functions that make a share or an import begin: acre__device_enter, and the device ends them
 * when it is closed. */
acre_status acre__share_enter(acre_device *dev);

/* ACRE_E_UNSUPPORTED where chunks cannot be exported or imported; *unit is what their sizes are
 * multiples of. */
acre_status acre__share_unit(acre_device *dev, size_t *unit);

/* For these hooks: what import.c does. */
void acre__import_end_all(acre_device *dev);
uint64_t acre__import_count(acre_device *dev);

#endif

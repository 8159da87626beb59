/* The driver API: prototypes of all functions of the table, acre__soft_cuInit and so on. Nothing in
 * the soft driver calls them but its table (soft_table.c). */
#ifndef ACRE_SOFT_API_H
#define ACRE_SOFT_API_H

#include "driver/driver.h"

#define SOFT_PROTOTYPE(name, symbol, version, need, sticky, calls, moved, params, args)            \
    CUresult acre__soft_##name params;
ACRE__DRIVER_LIST(SOFT_PROTOTYPE)
#undef SOFT_PROTOTYPE

#endif

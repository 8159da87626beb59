/* The driver API: prototypes of all functions of the table (soft_table.c), acre__soft_cuInit and so
 * on. Apart from the table, the only callers are functions of the API that are a special case of
 * another one: cuMemAllocHost, cuStreamCreate, cuEventRecord and cuGetErrorString. */
#ifndef ACRE_SOFT_API_H
#define ACRE_SOFT_API_H

#include "driver/driver.h"

#define SOFT_PROTOTYPE(name, symbol, version, need, sticky, calls, moved, params, args)            \
    CUresult acre__soft_##name params;
ACRE__DRIVER_LIST(SOFT_PROTOTYPE)
#undef SOFT_PROTOTYPE

#endif

/* Shared by the files of libcuda.so.1: the prototypes of its doors and the table behind them.
 *
 * A door is an exported function with the driver's own name, including the version suffix. It calls
 * the entry of the same name in one table: the soft driver's table, wrapped by fault injection
 * (ACRE_FAULT) and by the ledger. The doors are generated from the list of driver functions
 * (driver/driver_list.h). Doors written by hand are other forms of a function in that list and call
 * it. */
#ifndef ACRE_STANDIN_DRIVER_DOORS_H
#define ACRE_STANDIN_DRIVER_DOORS_H

#include <stdint.h>

#include "driver/cuda_abi.h"
#include "driver/driver.h"
#include "driver/driver_list.h"
#include "ledger.h"

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* cuInit, cuMemAlloc_v2 and so on. */
#define STANDIN_PROTOTYPE(name, symbol, version, need, sticky, calls, moved, params, args)         \
    STANDIN_EXPORT CUresult symbol params;
ACRE__DRIVER_LIST(STANDIN_PROTOTYPE)
#undef STANDIN_PROTOTYPE

/* Any function. It is converted back to its own type before a call. */
typedef void (*standin_function)(void);

/* Returns the table that every door calls, never NULL. CUDA cannot be used in a child forked after
 * cuInit: there every call returns CUDA_ERROR_NOT_INITIALIZED, except for the version and the names
 * and texts of errors. */
const struct acre__driver *acre__standin_table(void);

/* Records that the program cannot use CUDA here (acre__ledger_has_failed). A message has said why.
 */
void acre__standin_fail(void);

/* Prints once that `call` needs a GPU, because kernels do. */
void acre__standin_say_kernel(const char *call);

#endif

/* What the files of libcuda.so.1 share: the prototypes of its doors and the table behind them.
 *
 * A door is an exported function with the driver's own name, version suffix included, that calls
 * the entry of the same name in one table: the soft driver's, with the fault wrapper (ACRE_FAULT)
 * and the ledger in front. The list of driver functions (driver/driver_list.h) makes the doors;
 * those by hand are other forms of a function in that list, and come down to it. */
#ifndef ACRE_STANDIN_DRIVER_DOORS_H
#define ACRE_STANDIN_DRIVER_DOORS_H

#include <stdint.h>

#include "driver/cuda_abi.h"
#include "driver/driver.h"
#include "driver/driver_list.h"

#define STANDIN_EXPORT __attribute__((visibility("default")))

/* cuInit, cuMemAlloc_v2 and so on. */
#define STANDIN_PROTOTYPE(name, symbol, version, need, sticky, calls, moved, params, args)         \
    STANDIN_EXPORT CUresult symbol params;
ACRE__DRIVER_LIST(STANDIN_PROTOTYPE)
#undef STANDIN_PROTOTYPE

/* Any function; only ever converted back to its own type. */
typedef void (*standin_function)(void);

/* The table that every door goes through. Never NULL. In a child made by fork after cuInit, where
 * CUDA cannot be used, all of it returns CUDA_ERROR_NOT_INITIALIZED. */
const struct acre__driver *acre__standin_table(void);

/* 1 once cuInit has succeeded in this process. */
int acre__standin_is_used(void);

/* The program cannot have what it needs of CUDA here; a line has said why. */
void acre__standin_fail(void);
/* 1 after that. */
int acre__standin_has_failed(void);

/* Says once that `call` needs a GPU because kernels do. */
void acre__standin_say_kernel(const char *call);

#endif

/* The shim: hooks in front of functions of NVIDIA's libcuda.so.1, for programs that cannot be
 * changed.
 *
 * A hook is an exported function with the driver's own name, including the version suffix. A gate
 * makes programs call hooks instead of the driver: libacre_gate.so (gate_audit.c) or
 * libacre_dlsym.so (gate_preload.c). A hook calls the entry of the same name in one table: the
 * driver's functions, with a limit (shim_limit.h), with memory from acre's pool (shim_serve.h), and
 * wrapped by the ledger (ledger/), which records memory by caller.
 *
 * The shim makes no driver call until the program calls a hook, and none of its own at exit: a
 * profiler refuses programs in which another library has used CUDA first.
 *
 * In the global scope hooks have the driver's names: a weak reference to one is not NULL, even
 * without a driver, and a definition in a library that the program is linked with comes second.
 *
 * Locks: none. The table is made once and then read without a lock. */
#ifndef ACRE_SHIM_SHIM_H
#define ACRE_SHIM_SHIM_H

#include <link.h>
#include <stddef.h>

#include "driver/driver.h"
#include "ledger.h"
#include "shim_classes.h"

#define SHIM_EXPORT __attribute__((visibility("default")))

/* Any function. It is converted back to its own type before a call. */
typedef void (*shim_function)(void);

/* Returns the table that hooks call, never NULL. It is filled from the symbols of the driver that
 * the program has loaded, without a driver call. Without a driver its functions return
 * CUDA_ERROR_NOT_SUPPORTED. */
const struct acre__driver *acre__shim_table(void);

/* Returns the hook of the driver's function at this address, or the address itself. */
SHIM_EXPORT void *acre_shim_swap(void *function);
/* Does what acre_shim_swap does, for a function of NVML, libnvidia-ml.so.1 (shim_nvml.c). */
SHIM_EXPORT void *acre_shim_swap_nvml(void *function);

/* Finds the first loaded object with this DT_SONAME, without the dynamic loader: dlopen takes its
 * lock, and dlsym may return hooks. Only l_addr and l_ld are set. Returns 0 if there is none. */
int acre__shim_library(const char *soname, struct link_map *library_out);

#endif

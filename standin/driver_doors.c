/* The doors of libcuda.so.1: one exported function for each entry of the list, and their shared
 * table. See driver_doors.h.
 *
 * Locks: none. The table is chosen once and then read without a lock. */
#include "driver_doors.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "acre.h"

#include "base/config.h"
#include "base/symbol.h"
#include "caller.h"
#include "driver_forms.h"
#include "driver/driver_fault.h"
#include "soft/soft.h"

static struct {
    pthread_once_t once;
    struct acre__driver live;                   /* the table that doors call */
    const struct acre__driver *inner;           /* the soft driver's table, or the fault wrapper */
    _Atomic(const struct acre__driver *) table; /* &live, or &doors_forked in a child */
    _Atomic int is_used, has_failed;
} doors = {.once = PTHREAD_ONCE_INIT};

/* ---- calls that do more than the ledger ---- */

static CUresult doors_cuInit(unsigned int flags) {
    CUresult result = doors.inner->cuInit(flags);
    if (!result) {
        atomic_store_explicit(&doors.is_used, 1, memory_order_relaxed);
        acre__record_state(RUN_PROCESS_USED);
    } else if (!flags) {
        const char *detail = acre_last_detail();
        acre_ledger_say_once("cuInit", "the soft device did not start: %s",
                             detail[0] ? detail : acre__driver_error_name(result));
        acre__standin_fail();
    }
    return result;
}

static CUresult doors_cuModuleGetFunction(CUfunction *function_out, CUmodule module,
                                          const char *name) {
    CUresult result = doors.inner->cuModuleGetFunction(function_out, module, name);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        acre__standin_say_kernel("cuModuleGetFunction");
    return result;
}

static CUresult doors_cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                     unsigned int grid_z, unsigned int block_x,
                                     unsigned int block_y, unsigned int block_z,
                                     unsigned int shared_bytes, CUstream stream, void **params,
                                     void **extra) {
    CUresult result =
        doors.inner->cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                    shared_bytes, stream, params, extra);
    if (result == CUDA_ERROR_NOT_SUPPORTED)
        acre__standin_say_kernel("cuLaunchKernel");
    return result;
}

/* ---- after fork ---- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define DOORS_FORKED(name, symbol, version, need, sticky, calls, moved, params, args)              \
    static CUresult forked_##name params {                                                         \
        return CUDA_ERROR_NOT_INITIALIZED;                                                         \
    }
ACRE__DRIVER_LIST(DOORS_FORKED)
#pragma GCC diagnostic pop

static struct acre__driver doors_forked = {
#define DOORS_FORKED_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args)        \
    .name = forked_##name,
    ACRE__DRIVER_LIST(DOORS_FORKED_ENTRY)};

/* In a child only the forking thread exists: the soft driver's workers do not, and one of them may
 * hold its lock. If the parent had not initialised CUDA, the child may do so. */
static void doors_in_child(void) {
    if (atomic_load_explicit(&doors.is_used, memory_order_relaxed))
        atomic_store_explicit(&doors.table, &doors_forked, memory_order_relaxed);
    atomic_store_explicit(&doors.is_used, 0, memory_order_relaxed);
    acre__ledger_forget();
}

/* ---- the table ---- */

static void doors_begin(void) {
    doors.inner = acre__driver_soft();
    const char *spec = acre__config_string(ACRE__CONFIG_FAULT);
    struct acre__fault_plan plan;
    if (spec && (acre__fault_parse(spec, &plan) || acre__fault_set(&plan)))
        acre_ledger_say_once("ACRE_FAULT", "ACRE_FAULT is ignored: %s", acre_last_detail());
    else if (spec)
        doors.inner = acre__fault_wrap(doors.inner);
    doors.live = *doors.inner;
    acre__ledger_wrap(&doors.live, doors.inner);
    doors.live.cuInit = doors_cuInit;
    doors.live.cuModuleGetFunction = doors_cuModuleGetFunction;
    doors.live.cuLaunchKernel = doors_cuLaunchKernel;
    /* Calls that need no device work in a child, too. */
    doors_forked.cuDriverGetVersion = doors.live.cuDriverGetVersion;
    doors_forked.cuGetErrorName = doors.live.cuGetErrorName;
    doors_forked.cuGetErrorString = doors.live.cuGetErrorString;
    pthread_atfork(NULL, NULL, doors_in_child); /* fails when out of memory: children then hang */
    atomic_store_explicit(&doors.table, &doors.live, memory_order_release);
}

const struct acre__driver *acre__standin_table(void) {
    const struct acre__driver *table = atomic_load_explicit(&doors.table, memory_order_acquire);
    if (table)
        return table;
    pthread_once(&doors.once, doors_begin);
    return atomic_load_explicit(&doors.table, memory_order_acquire);
}

int acre__ledger_is_used(void) {
    return atomic_load_explicit(&doors.is_used, memory_order_relaxed);
}

void acre__standin_fail(void) {
    acre__record_state(RUN_PROCESS_FAILED);
    atomic_store_explicit(&doors.has_failed, 1, memory_order_relaxed);
}

int acre__ledger_is_driver_loaded(void) {
    return 0;
}

int acre__ledger_is_driver_initialised(void) {
    return 0;
}

int acre__ledger_is_called(void) {
    return acre__ledger_is_used();
}

int acre__ledger_has_second_driver(int *is_in_base) {
    (void)is_in_base;
    return 0;
}

int acre__ledger_limit(struct ledger_limit *limit_out) {
    (void)limit_out;
    return 0;
}

int acre__ledger_has_failed(void) {
    return atomic_load_explicit(&doors.has_failed, memory_order_relaxed);
}

const int acre__ledger_watches = 0;

const struct acre__driver *acre__ledger_driver(void) {
    return acre__driver_soft();
}

/* The stand-ins are the driver and the runtime, so a door's caller is the program. */
unsigned acre__ledger_stack_depth(int is_default) {
    (void)is_default;
    return 0;
}

void acre__ledger_outside(struct acre_ledger_caller *caller, unsigned depth) {
    (void)caller, (void)depth;
}

int acre__ledger_processes(CUdevice device, uint64_t *own_out, uint64_t *others_out) {
    (void)device, (void)own_out, (void)others_out;
    return 0;
}

int acre__ledger_module(uintptr_t address, char *name, size_t name_bytes, uint64_t *offset) {
    const char *file;
    if (!acre__symbol_module(address, &file, offset))
        return 0;
    const char *slash = strrchr(file, '/');
    snprintf(name, name_bytes, "%s", slash ? slash + 1 : file);
    return 1;
}

size_t acre__ledger_findings(char *text, size_t bytes) {
    return acre__soft_reports(text, bytes);
}

/* ---- doors of the list ---- */

#define DOOR(name, symbol, version, need, sticky, calls, moved, params, args)                      \
    CUresult symbol params {                                                                       \
        struct acre_ledger_caller before;                                                          \
        acre_ledger_enter(&before, #name, __builtin_return_address(0));                            \
        return acre__ledger_end(&before, acre__standin_table()->name args);                        \
    }
ACRE__DRIVER_LIST(DOOR)

/* ---- rows for cuGetProcAddress ---- */

#define DOOR_ROW(name, symbol, version, need, sticky, calls, moved, params, args)                  \
    {#name, #symbol, version, (standin_function)symbol},

const struct standin_row acre__standin_list_rows[] = {
    ACRE__DRIVER_LIST(DOOR_ROW){NULL, NULL, 0, NULL}};

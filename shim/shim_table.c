/* The table behind the hooks, and the pointers that they replace; see shim.h. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "elf_find.h"
#include "shim.h"
#include "shim_hooks.h"

struct shim_row {
    const char *symbol;
    shim_function hook;
    void *driver; /* the driver's function; NULL: it has none */
};

#define SHIM_ROW(symbol) {#symbol, (shim_function)symbol, NULL},
static struct shim_row shim_rows[] = {SHIM_HOOKS(SHIM_ROW)};
enum { SHIM_ROWS = sizeof shim_rows / sizeof shim_rows[0] };

static struct {
    pthread_once_t once;
    _Atomic int has_rows; /* shim_rows is complete */
    struct acre__driver driver, live;
    _Atomic(const struct acre__driver *) table; /* &live, once it is complete */
    _Atomic int is_used;
} shim = {.once = PTHREAD_ONCE_INIT};

/* ---- the driver's own functions ---- */

/* In place of dlsym, which may return hooks. `handle` is that of the driver's library. */
static void *shim_symbol(void *handle, const char *name) {
    struct link_map *object = NULL;
    return dlinfo(handle, RTLD_DI_LINKMAP, &object) == 0 ? acre__elf_find(object, name) : NULL;
}

/* Finds the functions that have hooks, without a driver call. Returns 0 if the program has not
 * loaded the driver. Several threads may do this at the same time, with the same result. */
static int shim_find_rows(void) {
    if (atomic_load_explicit(&shim.has_rows, memory_order_acquire))
        return 1;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    for (size_t i = 0; library && i < SHIM_ROWS; i++)
        __atomic_store_n(&shim_rows[i].driver, shim_symbol(library, shim_rows[i].symbol),
                         __ATOMIC_RELAXED);
    atomic_store_explicit(&shim.has_rows, library != NULL, memory_order_release);
    return library != NULL;
}

static void shim_end(const char *why) {
    fprintf(stderr, "acre: the shim cannot find the CUDA driver that the program calls: %s\n", why);
    abort();
}

static CUresult shim_cuInit(unsigned int flags) {
    CUresult result = shim.driver.cuInit(flags);
    if (!result) {
        atomic_store_explicit(&shim.is_used, 1, memory_order_relaxed);
        acre__record_state(RUN_PROCESS_USED);
    }
    return result;
}

/* The child of a process that has used CUDA cannot use it: the driver says so itself. What the
 * parent has allocated is not the child's. */
static void shim_in_child(void) {
    atomic_store_explicit(&shim.is_used, 0, memory_order_relaxed);
    acre__ledger_forget();
}

static void shim_begin(void) {
    acre__driver_symbol = shim_symbol;
    if (acre__driver_cuda_load(NULL, &shim.driver))
        shim_end(acre_last_detail());
    if (!shim_find_rows())
        shim_end("libcuda.so.1 is not loaded");
    shim.live = shim.driver;
    acre__ledger_wrap(&shim.live, &shim.driver);
    shim.live.cuInit = shim_cuInit;
    pthread_atfork(NULL, NULL, shim_in_child); /* fails when out of memory: children report, too */
    atomic_store_explicit(&shim.table, &shim.live, memory_order_release);
}

const struct acre__driver *acre__shim_table(void) {
    const struct acre__driver *table = atomic_load_explicit(&shim.table, memory_order_acquire);
    if (table)
        return table;
    pthread_once(&shim.once, shim_begin);
    return atomic_load_explicit(&shim.table, memory_order_acquire);
}

void *acre__shim_driver(enum shim_hook hook) {
    if (!shim_find_rows())
        shim_end("libcuda.so.1 is not loaded");
    return shim_rows[hook].driver;
}

void *acre_shim_swap(void *function) {
    for (size_t i = 0; function && shim_find_rows() && i < SHIM_ROWS; i++) {
        if (shim_rows[i].driver == function)
            return (void *)shim_rows[i].hook;
    }
    return function;
}

/* ---- for the ledger ---- */

const int acre__ledger_watches = 1;

const struct acre__driver *acre__ledger_driver(void) {
    return &shim.driver;
}

int acre__ledger_is_used(void) {
    return atomic_load_explicit(&shim.is_used, memory_order_relaxed);
}

int acre__ledger_has_failed(void) {
    return 0;
}

size_t acre__ledger_findings(char *text, size_t bytes) {
    (void)text, (void)bytes;
    return 0;
}

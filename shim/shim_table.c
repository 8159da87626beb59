/* The table behind the hooks, and the pointers that they replace; see shim.h. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "elf_find.h"
#include "ledger_oom.h"
#include "ledger_trace.h"
#include "shim.h"
#include "shim_count.h"
#include "shim_hooks.h"
#include "shim_limit.h"
#include "shim_memops.h"
#include "shim_modules.h"
#include "shim_retry.h"
#include "shim_serve.h"

struct shim_row {
    const char *symbol;
    shim_function hook;
    void *driver; /* the driver's function; NULL: it has none */
};

#define SHIM_ROW(symbol) {#symbol, (shim_function)symbol, NULL},
#define SHIM_COUNTED_ROW(symbol) {#symbol, acre__count_##symbol, NULL},
static struct shim_row shim_rows[] = {SHIM_HOOKS(SHIM_ROW) SHIM_COUNTED(SHIM_COUNTED_ROW)};
enum { SHIM_ROWS = sizeof shim_rows / sizeof shim_rows[0] };

static struct {
    _Atomic int has_rows;                       /* shim_rows is complete */
    _Atomic int is_loading;                     /* a thread fills the table */
    struct acre__driver driver;                 /* the driver's own functions */
    struct acre__driver limited;                /* with the limit, if there is one */
    struct acre__driver pooled;                 /* with acre's pool, if the shim serves */
    struct acre__driver served;                 /* that, and the program's own chunks counted */
    struct acre__driver live;                   /* with the ledger, if there is a report */
    _Atomic(const struct acre__driver *) table; /* &live, once it is complete */
    _Atomic int is_called, is_used;
} shim;

/* ---- the driver's own functions ---- */

struct shim_search {
    const char *soname;
    struct link_map *found;
};

static int shim_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    const struct shim_search *search = user;
    (void)bytes;
    struct link_map map = {.l_addr = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    if (!map.l_ld || !acre__elf_has_soname(&map, search->soname))
        return 0;
    *search->found = map;
    return 1;
}

int acre__shim_library(const char *soname, struct link_map *library_out) {
    struct shim_search search = {soname, library_out};
    return dl_iterate_phdr(shim_look, &search);
}

static int shim_library(struct link_map *library_out) {
    return acre__shim_library("libcuda.so.1", library_out);
}

/* Keeps the driver loaded: the tables have its addresses, and a driver that the program closes and
 * opens again would have others. Not under the loader's lock of another thread that waits here. */
static void shim_pin(void) {
    (void)dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Finds the functions that have hooks, without a driver call. Returns 0 if the program has not
 * loaded the driver. Several threads may do this at the same time, with the same result. */
static int shim_find_rows(void) {
    if (atomic_load_explicit(&shim.has_rows, memory_order_acquire))
        return 1;
    struct link_map library;
    if (!shim_library(&library))
        return 0;
    for (size_t i = 0; i < SHIM_ROWS; i++)
        __atomic_store_n(&shim_rows[i].driver, acre__elf_find(&library, shim_rows[i].symbol),
                         __ATOMIC_RELAXED);
    atomic_store_explicit(&shim.has_rows, 1, memory_order_release);
    shim_pin();
    return 1;
}

static CUresult shim_cuInit(unsigned int flags) {
    atomic_store_explicit(&shim.is_called, 1, memory_order_relaxed);
    CUresult result = shim.served.cuInit(flags);
    if (!result) {
        atomic_store_explicit(&shim.is_used, 1, memory_order_relaxed);
        acre__record_state(RUN_PROCESS_USED);
    }
    return result;
}

/* The child of a process that has used CUDA cannot use it: the driver says so itself. What the
 * parent has allocated is not the child's. */
static void shim_in_child(void) {
    atomic_store_explicit(&shim.is_called, 0, memory_order_relaxed);
    atomic_store_explicit(&shim.is_used, 0, memory_order_relaxed);
    acre__ledger_forget();
    acre__ledger_trace_forget();
    acre__serve_forget();
    acre__limit_forget();
    acre__count_forget();
    acre__modules_forget();
    acre__oom_in_child();
}

/* Functions that a driver lacks. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define SHIM_LACKS(name, symbol, version, need, sticky, calls, moved, params, args)                \
    static CUresult lacks_##name params {                                                          \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
ACRE__DRIVER_LIST(SHIM_LACKS)
#pragma GCC diagnostic pop

static const struct acre__driver shim_lacks = {
#define SHIM_LACKS_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args)          \
    .name = lacks_##name,
    ACRE__DRIVER_LIST(SHIM_LACKS_ENTRY)};

struct shim_entry {
    const char *symbol;
    size_t offset; /* in struct acre__driver */
};
#define SHIM_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args)                \
    {#symbol, offsetof(struct acre__driver, name)},
static const struct shim_entry shim_entries[] = {ACRE__DRIVER_LIST(SHIM_ENTRY)};

/* Returns 1 if memory is to be served. Under a profiler it stays the driver's. */
static int shim_serves(void) {
    const char *profiler = acre__ledger_word("serve") ? acre__profiler() : NULL;
    if (profiler)
        acre__ledger_say("%.200s is in this process: acre only watches, and memory comes from the "
                         "driver",
                         profiler);
    return !profiler && acre__ledger_word("serve");
}

static struct serve_options shim_options(void) {
    return (struct serve_options){.is_on = shim_serves(),
                                  .defers = acre__ledger_word("defer") != NULL,
                                  .zeroes = acre__ledger_word("zero") != NULL,
                                  .ipc_is_real = acre__ledger_word("ipc=driver") != NULL};
}

static void shim_fill(const struct link_map *library) {
    struct serve_options options = shim_options();
    shim.driver = shim_lacks;
    for (size_t i = 0; i < sizeof shim_entries / sizeof shim_entries[0]; i++) {
        void *address = acre__elf_find(library, shim_entries[i].symbol);
        if (address)
            memcpy((char *)&shim.driver + shim_entries[i].offset, &address, sizeof address);
        shim.driver.missing[i] = !address;
    }
    shim.driver.name = "cuda";
    shim.limited = shim.driver;
    if (acre__limit_is_on())
        acre__limit_wrap(&shim.limited, &shim.driver);
    shim.pooled = shim.limited;
    if (options.is_on)
        acre__serve_wrap(&shim.pooled, &shim.limited, &options);
    shim.served = shim.pooled;
    if (options.is_on && !acre__limit_is_on())
        acre__limit_count_chunks(&shim.served, &shim.pooled);
    shim.live = shim.served;
    acre__ledger_trace_begin(!options.is_on);
    if (acre__ledger_word("watch")) {
        acre__ledger_wrap(&shim.live, &shim.served);
        acre__count_wrap(&shim.live, &shim.served);
    }
    shim.live.cuInit = shim_cuInit;
    pthread_atfork(NULL, NULL, shim_in_child); /* fails when out of memory: children report, too */
    atomic_store_explicit(&shim.table, &shim.live, memory_order_release);
}

/* One thread fills the table, and the others wait for it. Until then it makes no driver call and
 * does not use the dynamic loader, in whose lock one of the others may be. */
const struct acre__driver *acre__shim_table(void) {
    const struct acre__driver *table;
    while (!(table = atomic_load_explicit(&shim.table, memory_order_acquire))) {
        struct link_map library;
        if (!shim_library(
                &library)) /* the program has a hook in place of a weak reference, perhaps */
            return &shim_lacks;
        if (!atomic_exchange_explicit(&shim.is_loading, 1, memory_order_acquire)) {
            shim_fill(&library);
            shim_pin();
        } else {
            sched_yield();
        }
    }
    return table;
}

void *acre__shim_driver(enum shim_hook hook) {
    return shim_find_rows() ? shim_rows[hook].driver : NULL;
}

int acre__shim_find(enum shim_hook hook, void *function_out) {
    void *address = acre__shim_driver(hook);
    if (address)
        memcpy(function_out, &address, sizeof address);
    return address != NULL;
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

int acre__ledger_is_driver_loaded(void) {
    struct link_map library;
    return shim_library(&library);
}

int acre__ledger_is_called(void) {
    return atomic_load_explicit(&shim.is_called, memory_order_relaxed);
}

int acre__ledger_is_driver_initialised(void) {
    struct link_map library;
    int count = 0;
    CUresult (*get_count)(int *) = NULL;
    void *address = shim_library(&library) ? acre__elf_find(&library, "cuDeviceGetCount") : NULL;
    memcpy(&get_count, &address, sizeof address);
    return get_count && get_count(&count) != CUDA_ERROR_NOT_INITIALIZED;
}

int acre__ledger_has_failed(void) {
    return 0;
}

size_t acre__ledger_findings(char *text, size_t bytes) {
    (void)text, (void)bytes;
    return 0;
}

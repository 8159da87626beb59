/* The table behind the hooks, and the pointers that they replace; see shim.h. */
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/config.h"
#include "elf_find.h"
#include "ledger_oom.h"
#include "shim.h"
#include "shim_count.h"
#include "shim_hooks.h"
#include "shim_modules.h"
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
    struct acre__driver served;                 /* with acre's pool, if the shim serves */
    struct acre__driver live;                   /* with the ledger */
    _Atomic(const struct acre__driver *) table; /* &live, once it is complete */
    _Atomic int is_used;
} shim;

/* ---- the driver's own functions ---- */

/* The driver's library: the first object with this name that a program has loaded. */
struct shim_library {
    struct link_map map;
    int is_found;
};

static int shim_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    struct shim_library *library = user;
    (void)bytes;
    struct link_map map = {.l_addr = info->dlpi_addr};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    if (!map.l_ld || !acre__elf_has_soname(&map, "libcuda.so.1"))
        return 0;
    *library = (struct shim_library){map, 1};
    return 1;
}

/* Neither dlopen, which takes the loader's lock, nor dlsym, which may return hooks. */
static struct shim_library shim_library(void) {
    struct shim_library library = {{0}, 0};
    (void)dl_iterate_phdr(shim_look, &library);
    return library;
}

/* Finds the functions that have hooks, without a driver call. Returns 0 if the program has not
 * loaded the driver. Several threads may do this at the same time, with the same result. */
static int shim_find_rows(void) {
    if (atomic_load_explicit(&shim.has_rows, memory_order_acquire))
        return 1;
    struct shim_library library = shim_library();
    for (size_t i = 0; library.is_found && i < SHIM_ROWS; i++)
        __atomic_store_n(&shim_rows[i].driver, acre__elf_find(&library.map, shim_rows[i].symbol),
                         __ATOMIC_RELAXED);
    if (library.is_found)
        atomic_store_explicit(&shim.has_rows, 1, memory_order_release);
    return library.is_found;
}

static CUresult shim_cuInit(unsigned int flags) {
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
    atomic_store_explicit(&shim.is_used, 0, memory_order_relaxed);
    acre__ledger_forget();
    acre__serve_forget();
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

/* Returns 1 if ACRE_RUN has the word; ledger/ledger_run.c describes them. */
static int shim_has_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)); at += length) {
        if ((at == words || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return 1;
    }
    return 0;
}

static struct serve_options shim_options(void) {
    const char *words = acre__config_string(ACRE__CONFIG_RUN);
    return (struct serve_options){.is_on = shim_has_word(words, "serve"),
                                  .defers = shim_has_word(words, "defer"),
                                  .zeroes = shim_has_word(words, "zero"),
                                  .ipc_is_real = shim_has_word(words, "ipc=driver")};
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
    shim.served = shim.driver;
    if (options.is_on)
        acre__serve_wrap(&shim.served, &shim.driver, &options);
    shim.live = shim.served;
    acre__ledger_wrap(&shim.live, &shim.served);
    acre__count_wrap(&shim.live, &shim.served);
    shim.live.cuInit = shim_cuInit;
    pthread_atfork(NULL, NULL, shim_in_child); /* fails when out of memory: children report, too */
    atomic_store_explicit(&shim.table, &shim.live, memory_order_release);
}

/* One thread fills the table, and the others wait for it. It makes no driver call and does not use
 * the dynamic loader, in whose lock one of the others may be. */
const struct acre__driver *acre__shim_table(void) {
    const struct acre__driver *table;
    while (!(table = atomic_load_explicit(&shim.table, memory_order_acquire))) {
        struct shim_library library = shim_library();
        if (!library.is_found) /* the program has a hook in place of a weak reference, perhaps */
            return &shim_lacks;
        if (!atomic_exchange_explicit(&shim.is_loading, 1, memory_order_acquire))
            shim_fill(&library.map);
        else
            sched_yield();
    }
    return table;
}

void *acre__shim_driver(enum shim_hook hook) {
    return shim_find_rows() ? shim_rows[hook].driver : NULL;
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

/*
 * The driver table filled from libcuda.so.1.
 *
 * dlopen loads the library at run time, so that acre starts on machines without it. Entries come
 * from cuGetProcAddress with the version pinned in driver_list.h: an exported name alone does not
 * say which form of a function a newer driver returns. If cuGetProcAddress does not find a name,
 * the loader looks up its exact exported symbol before it counts the entry as missing.
 *
 * The loader calls nothing but cuGetProcAddress, which needs no cuInit. It never closes a library
 * that it loaded successfully: the library's threads and exit handlers would outlive it.
 *
 * Relies on: dlfcn, base/status, base/config. Locks: one pthread_once guards the process's one
 * table; the table is constant afterwards.
 */
#include "driver/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"
#include "driver/driver_count.h"

#define CUDA_LIBRARY "libcuda.so.1"

typedef CUresult (*cuda_lookup_v1)(const char *symbol, void **out, int version, uint64_t flags);
typedef CUresult (*cuda_lookup_v2)(const char *symbol, void **out, int version, uint64_t flags,
                                   CUdriverProcAddressQueryResult *status);

/* An open library and its lookup function; one of v1 and v2 is set. */
struct cuda_library {
    void *handle;
    cuda_lookup_v1 v1; /* CUDA 11.3 to 11.8 */
    cuda_lookup_v2 v2; /* CUDA 12 and later */
};

/* ---- stubs for functions that a driver lacks ------------------------------------------------- */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define CUDA_STAND_IN_REQUIRED(name, params)
#define CUDA_STAND_IN_OPTIONAL(name, params)                                                       \
    static CUresult cuda_lacks_##name params {                                                     \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
#define CUDA_STAND_IN(name, symbol, version, need, sticky, calls, moved, params, args)             \
    CUDA_STAND_IN_##need(name, params)
ACRE__DRIVER_LIST(CUDA_STAND_IN)
#pragma GCC diagnostic pop

/* Any function; always converted back to its original type before a call. */
typedef void (*cuda_function)(void);

struct cuda_entry {
    const char *name;
    const char *symbol;
    int version;
    size_t offset;          /* offset of the member in struct acre__driver */
    cuda_function stand_in; /* NULL: required */
};

#define CUDA_FUNCTION_REQUIRED(name) NULL
#define CUDA_FUNCTION_OPTIONAL(name) (cuda_function) cuda_lacks_##name
#define CUDA_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args)                \
    {#name, #symbol, version, offsetof(struct acre__driver, name), CUDA_FUNCTION_##need(name)},

static const struct cuda_entry cuda_entries[ACRE__ENTRY_COUNT] = {ACRE__DRIVER_LIST(CUDA_ENTRY)};

/* ---- loading --------------------------------------------------------------------------------- */

/* The address of one entry, or NULL. `*code` is the result of cuGetProcAddress. */
static void *cuda_find(const struct cuda_library *lib, const struct cuda_entry *entry,
                       CUresult *code) {
    void *address = NULL;

    *code = CUDA_ERROR_NOT_FOUND;
    if (lib->v2 != NULL) {
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;

        *code = lib->v2(entry->name, &address, entry->version, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                        &status);
        if (status != CU_GET_PROC_ADDRESS_SUCCESS)
            address = NULL;
    } else if (lib->v1 != NULL) { /* cuda_open found one of the two */
        *code = lib->v1(entry->name, &address, entry->version, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
    }
    if (*code != CUDA_SUCCESS)
        address = NULL;
    if (address == NULL && *code != CUDA_ERROR_STUB_LIBRARY)
        address = dlsym(lib->handle, entry->symbol);
    return address;
}

static acre_status cuda_open(const char *path, struct cuda_library *lib) {
    void *v1, *v2;

    memset(lib, 0, sizeof *lib);
    lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib->handle == NULL) {
        const char *why = dlerror();

        return acre__fail(ACRE_E_NO_DRIVER, "cannot load the CUDA driver %s: %s", path,
                          why != NULL ? why : "no reason given");
    }
    v2 = dlsym(lib->handle, "cuGetProcAddress_v2");
    v1 = v2 != NULL ? NULL : dlsym(lib->handle, "cuGetProcAddress");
    if (v1 == NULL && v2 == NULL) {
        dlclose(lib->handle);
        return acre__fail(ACRE_E_DRIVER_OLD,
                          "the CUDA driver %s lacks cuGetProcAddress: CUDA 11.4 or later is needed",
                          path);
    }
    memcpy(&lib->v2, &v2, sizeof v2);
    memcpy(&lib->v1, &v1, sizeof v1);
    return ACRE_OK;
}

acre_status acre__driver_cuda_load(const char *library, struct acre__driver *table) {
    const char *path = library != NULL ? library : CUDA_LIBRARY;
    struct cuda_library lib;

    memset(table, 0, sizeof *table);
    acre_status status = cuda_open(path, &lib);
    if (status != ACRE_OK)
        return status;
    for (size_t i = 0; i < ACRE__ENTRY_COUNT; i++) {
        const struct cuda_entry *entry = &cuda_entries[i];
        CUresult code;
        void *address = cuda_find(&lib, entry, &code);

        if (code == CUDA_ERROR_STUB_LIBRARY) {
            status = acre__fail(ACRE_E_NO_DRIVER,
                                "%s is the toolkit's stub for linking, not a CUDA driver", path);
            goto fail;
        }
        if (address == NULL && entry->stand_in == NULL) {
            status = acre__fail(ACRE_E_DRIVER_OLD,
                                "the CUDA driver %s lacks %s of CUDA %d.%d: it is too old", path,
                                entry->name, entry->version / 1000, entry->version % 1000 / 10);
            goto fail;
        }
        if (address != NULL) {
            memcpy((char *)table + entry->offset, &address, sizeof address);
        } else {
            memcpy((char *)table + entry->offset, &entry->stand_in, sizeof entry->stand_in);
            table->missing[i] = 1;
        }
    }
    table->name = "cuda";
    return ACRE_OK;

fail:
    dlclose(lib.handle);
    memset(table, 0, sizeof *table);
    return status;
}

/* ---- the process's one table ----------------------------------------------------------------- */

static struct {
    pthread_once_t once;
    acre_status status;
    char detail[256]; /* returned to every caller after a failure */
    struct acre__driver table;
} cuda_one = {.once = PTHREAD_ONCE_INIT};

/* NULL: the library is loaded. */
static const struct acre__driver *cuda_given;

void acre__driver_cuda_use(const struct acre__driver *table) {
    cuda_given = table;
}

static void cuda_load_once(void) {
    if (cuda_given)
        cuda_one.table = *cuda_given;
    else
        cuda_one.status =
            acre__driver_cuda_load(acre__config_string(ACRE__CONFIG_CUDA_LIBRARY), &cuda_one.table);
    if (cuda_one.status == ACRE_OK)
        acre__driver_count(&cuda_one.table);
    else
        snprintf(cuda_one.detail, sizeof cuda_one.detail, "%s", acre_last_detail());
}

acre_status acre__driver_cuda(const struct acre__driver **out) {
    *out = NULL;
    pthread_once(&cuda_one.once, cuda_load_once);
    if (cuda_one.status != ACRE_OK)
        return acre__fail(cuda_one.status, "%s", cuda_one.detail);
    *out = &cuda_one.table;
    return ACRE_OK;
}

/* Hooks of the calls that create and destroy arrays, which are no part of the table: acre itself
 * uses no arrays. The ledger records an array by its handle, with the bytes of its elements
 * (shim_array_bytes.h).
 *
 * A context that is destroyed takes its arrays with it. The driver does not check a stale handle,
 * so the ledger does not notice, and lists them as not freed. */
#include <string.h>

#include "caller.h"
#include "shim_array_bytes.h"
#include "shim_hooks.h"
#include "shim_limit.h"
#include "shim_serve.h"

/* A call that creates an array. */
struct arrays_request {
    enum shim_hook hook;
    const char *name;
    void **handle_out;
    const void *descriptor;    /* the program's, of the call's own type */
    struct shim_array3d array; /* a copy of it, or zeros */
    unsigned int levels;
};

static CUresult arrays_call(const struct arrays_request *request, void *driver) {
    CUresult (*create)(void **, const void *);
    CUresult (*create_levels)(void **, const void *, unsigned int);
    memcpy(&create, &driver, sizeof create);
    memcpy(&create_levels, &driver, sizeof create_levels);
    return request->hook == SHIM_HOOK_cuMipmappedArrayCreate
               ? create_levels(request->handle_out, request->descriptor, request->levels)
               : create(request->handle_out, request->descriptor);
}

/* Calls the driver once, with the bytes charged to a limit. */
static CUresult arrays_try(const struct arrays_request *request, void *driver, uint64_t bytes) {
    if (!acre__limit_is_on() || !request->handle_out)
        return arrays_call(request, driver);
    int is_refused = 0;
    struct limit_array *array = acre__limit_begin_array(bytes, &is_refused);
    if (is_refused)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = arrays_call(request, driver);
    acre__limit_made_array(array, result ? NULL : *request->handle_out);
    return result;
}

/* Calls the driver, with room made by acre if need be. */
static CUresult arrays_create(const struct arrays_request *request, void *driver, uint64_t bytes) {
    CUresult result = arrays_try(request, driver, bytes);
    for (int i = 0; i < 2 && result == CUDA_ERROR_OUT_OF_MEMORY; i++) {
        if (acre__serve_make_room(i))
            result = arrays_try(request, driver, bytes);
    }
    return result;
}

/* Creates an array, and records it, or that it was refused. */
static CUresult arrays_make(const struct arrays_request *request, const void *caller) {
    struct acre_ledger_caller before;
    void *driver = acre__shim_driver(request->hook);
    if (!driver)
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, request->name, caller);
    (void)acre__shim_table(); /* the ledger queries the driver */
    uint64_t bytes = request->descriptor ? acre__array_bytes(&request->array, request->levels) : 0;
    CUresult result = arrays_create(request, driver, bytes);
    if (result)
        acre__ledger_refuse(RUN_ARRAY);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        acre__ledger_request(RUN_ARRAY, bytes);
        acre__ledger_why_memory(bytes);
    }
    if (!result && request->handle_out && *request->handle_out)
        acre__ledger_add(RUN_ARRAY, (uintptr_t)*request->handle_out, bytes);
    return acre__ledger_end(&before, result);
}

CUresult cuArrayCreate_v2(void **handle_out, const struct shim_array *array) {
    struct arrays_request request = {
        SHIM_HOOK_cuArrayCreate_v2, "cuArrayCreate", handle_out, array, {0}, 1};
    if (array)
        request.array = (struct shim_array3d){array->width,  array->height,   0,
                                              array->format, array->channels, 0};
    return arrays_make(&request, __builtin_return_address(0));
}

CUresult cuArray3DCreate_v2(void **handle_out, const struct shim_array3d *array) {
    struct arrays_request request = {
        SHIM_HOOK_cuArray3DCreate_v2, "cuArray3DCreate", handle_out, array, {0}, 1};
    if (array)
        request.array = *array;
    return arrays_make(&request, __builtin_return_address(0));
}

CUresult cuMipmappedArrayCreate(void **handle_out, const struct shim_array3d *array,
                                unsigned int levels) {
    struct arrays_request request = {
        SHIM_HOOK_cuMipmappedArrayCreate, "cuMipmappedArrayCreate", handle_out, array, {0}, levels};
    if (array)
        request.array = *array;
    return arrays_make(&request, __builtin_return_address(0));
}

static CUresult arrays_destroy(enum shim_hook hook, const char *name, void *handle,
                               const void *caller) {
    CUresult (*driver)(void *);
    struct acre_ledger_caller before;
    if (!acre__shim_find(hook, &driver))
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, name, caller);
    (void)acre__shim_table();
    struct ledger_entry *entry = acre__ledger_take(RUN_ARRAY, (uintptr_t)handle);
    struct limit_array *array = acre__limit_is_on() ? acre__limit_take_out_array(handle) : NULL;
    CUresult result = driver(handle);
    acre__limit_ended_array(array, !result);
    acre__ledger_settle(RUN_ARRAY, (uintptr_t)handle, entry, result);
    return acre__ledger_end(&before, result);
}

CUresult cuArrayDestroy(void *handle) {
    return arrays_destroy(SHIM_HOOK_cuArrayDestroy, "cuArrayDestroy", handle,
                          __builtin_return_address(0));
}

CUresult cuMipmappedArrayDestroy(void *handle) {
    return arrays_destroy(SHIM_HOOK_cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", handle,
                          __builtin_return_address(0));
}

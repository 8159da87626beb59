/* Hooks of the calls that create and destroy arrays, which are no part of the table: acre itself
 * uses no arrays. The ledger records an array by its handle, with the bytes of its elements
 * (shim_array_bytes.h).
 *
 * A context that is destroyed takes its arrays with it. The driver does not check a stale handle,
 * so the ledger does not notice, and lists them as not freed. */
#include "caller.h"
#include "shim_array_bytes.h"
#include "shim_hooks.h"
#include "shim_serve.h"

/* Records an array, or that it was refused. `handle` is where the driver has put it. */
static CUresult arrays_made(const struct acre_ledger_caller *before, CUresult result,
                            void *const *handle, const struct shim_array3d *array,
                            unsigned levels) {
    uint64_t bytes = array ? acre__array_bytes(array, levels) : 0;
    if (result)
        acre__ledger_refuse(RUN_ARRAY);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        acre__ledger_request(RUN_ARRAY, bytes);
        acre__ledger_why_memory(bytes);
    }
    if (!result && handle && *handle)
        acre__ledger_add(RUN_ARRAY, (uintptr_t)*handle, bytes);
    return acre__ledger_end(before, result);
}

CUresult cuArrayCreate_v2(void **handle_out, const struct shim_array *array) {
    CUresult (*driver)(void **, const struct shim_array *);
    struct acre_ledger_caller before;
    if (!acre__shim_find(SHIM_HOOK_cuArrayCreate_v2, &driver))
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, "cuArrayCreate", __builtin_return_address(0));
    (void)acre__shim_table(); /* the ledger queries the driver */
    CUresult result = driver(handle_out, array);
    for (int i = 0; result == CUDA_ERROR_OUT_OF_MEMORY && acre__serve_make_room(i); i++)
        result = driver(handle_out, array);
    struct shim_array3d copy = {0};
    if (array)
        copy = (struct shim_array3d){array->width,  array->height,   0,
                                     array->format, array->channels, 0};
    return arrays_made(&before, result, handle_out, &copy, 1);
}

CUresult cuArray3DCreate_v2(void **handle_out, const struct shim_array3d *array) {
    CUresult (*driver)(void **, const struct shim_array3d *);
    struct acre_ledger_caller before;
    if (!acre__shim_find(SHIM_HOOK_cuArray3DCreate_v2, &driver))
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, "cuArray3DCreate", __builtin_return_address(0));
    (void)acre__shim_table();
    CUresult result = driver(handle_out, array);
    for (int i = 0; result == CUDA_ERROR_OUT_OF_MEMORY && acre__serve_make_room(i); i++)
        result = driver(handle_out, array);
    return arrays_made(&before, result, handle_out, array, 1);
}

CUresult cuMipmappedArrayCreate(void **handle_out, const struct shim_array3d *array,
                                unsigned int levels) {
    CUresult (*driver)(void **, const struct shim_array3d *, unsigned int);
    struct acre_ledger_caller before;
    if (!acre__shim_find(SHIM_HOOK_cuMipmappedArrayCreate, &driver))
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, "cuMipmappedArrayCreate", __builtin_return_address(0));
    (void)acre__shim_table();
    CUresult result = driver(handle_out, array, levels);
    for (int i = 0; result == CUDA_ERROR_OUT_OF_MEMORY && acre__serve_make_room(i); i++)
        result = driver(handle_out, array, levels);
    return arrays_made(&before, result, handle_out, array, levels);
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
    CUresult result = driver(handle);
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

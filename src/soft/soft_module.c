/* Modules of the soft driver. It accepts PTX text but cannot launch kernels from it. It keeps one
 * rule of the in-kernel heap: the heap must fit on the device when a module that uses malloc is
 * loaded. */
#include <stdlib.h>
#include <string.h>

#include "soft/soft_api.h"
#include "soft/soft_enter.h"
#include "soft/soft_state.h"
#include "soft/soft_thread.h"

/* Returns 1 for PTX: the text begins, after blanks and comments, with the directive .version. */
static int text_is_ptx(const char *text) {
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (text[0] == '/' && text[1] == '/') {
            text += strcspn(text, "\n");
        } else if (text[0] == '/' && text[1] == '*') {
            const char *end = strstr(text + 2, "*/");
            if (!end)
                return 0;
            text = end + 2;
        } else {
            return strncmp(text, ".version", 8) == 0;
        }
    }
}

CUresult acre__soft_cuModuleLoadData(CUmodule *module_out, const void *image) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!module_out || !image)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!text_is_ptx(image))
        return acre__soft_leave(CUDA_ERROR_INVALID_IMAGE);
    size_t heap = acre__soft_ctx_now()->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
    if (strstr(image, "malloc") && heap > acre__soft.config.bytes - device->used_bytes)
        return acre__soft_leave(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    struct CUmod_st *module = calloc(1, sizeof *module);
    if (!module)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    module->node.key = (uint64_t)(uintptr_t)module;
    module->ctx = acre__soft_ctx_now();
    acre__tree_insert(&acre__soft.modules, &module->node);
    *module_out = module;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuModuleUnload(CUmodule module) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!module || !acre__tree_find(&acre__soft.modules, (uint64_t)(uintptr_t)module))
        return acre__soft_leave(CUDA_ERROR_INVALID_HANDLE);
    acre__tree_remove(&acre__soft.modules, &module->node);
    free(module);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuModuleGetFunction(CUfunction *function_out, CUmodule module,
                                        const char *name) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!function_out || !name)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (!module || !acre__tree_find(&acre__soft.modules, (uint64_t)(uintptr_t)module))
        return acre__soft_leave(CUDA_ERROR_INVALID_HANDLE);
    return acre__soft_leave(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult acre__soft_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void **params, void **extra) {
    (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
    (void)block_z, (void)shared_bytes, (void)stream, (void)params, (void)extra;
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    return result ? result : acre__soft_leave(CUDA_ERROR_NOT_SUPPORTED);
}

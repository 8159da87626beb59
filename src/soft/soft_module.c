/* Modules of the soft driver, by one rule: what a GPU loads is loaded, and no kernel of it runs.
 *
 * Every call that loads a module accepts PTX, cubins and fat binaries, and refuses anything else
 * with CUDA_ERROR_INVALID_IMAGE. cuModuleGetFunction then returns CUDA_ERROR_NOT_SUPPORTED. An
 * image is recognised by its first bytes and not read further, except that PTX shows whether it
 * uses malloc: the in-kernel heap must fit on the device when such a module is loaded. */
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

/* Returns 1 for a cubin: an ELF file of 64 bits for EM_CUDA. The bytes are compared in order, so
 * text is not read past its end. */
static int image_is_cubin(const unsigned char *image) {
    static const unsigned char begin[] = {0x7f, 'E', 'L', 'F', 2 /* 64 bits */,
                                          1 /* little-endian */};
    enum { MACHINE = 18, EM_CUDA = 190 };
    for (size_t i = 0; i < sizeof begin; i++)
        if (image[i] != begin[i])
            return 0;
    return image[MACHINE] == EM_CUDA && image[MACHINE + 1] == 0;
}

/* Returns 1 for a fat binary, as nvcc writes it. */
static int image_is_fat(const unsigned char *image) {
    static const unsigned char begin[] = {0x50, 0xed, 0x55, 0xba};
    for (size_t i = 0; i < sizeof begin; i++)
        if (image[i] != begin[i])
            return 0;
    return 1;
}

/* Loads an image for a call that has entered. */
static CUresult module_load(struct soft_device *device, const void *image, CUmodule *out) {
    int is_ptx = text_is_ptx(image);
    if (!is_ptx && !image_is_cubin(image) && !image_is_fat(image))
        return CUDA_ERROR_INVALID_IMAGE;
    size_t heap = acre__soft_ctx_now()->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
    if (is_ptx && strstr(image, "malloc") && heap > acre__soft.config.bytes - device->used_bytes)
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    struct CUmod_st *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->node.key = (uint64_t)(uintptr_t)module;
    module->ctx = acre__soft_ctx_now();
    acre__tree_insert(&acre__soft.modules, &module->node);
    *out = module;
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuModuleLoadData(CUmodule *module_out, const void *image) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!module_out || !image)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    return acre__soft_leave(module_load(device, image, module_out));
}

/* Returns the value of an option, or NULL. */
static void *jit_value(unsigned count, const CUjit_option *options, void **values,
                       CUjit_option option) {
    for (unsigned i = 0; i < count; i++)
        if (options[i] == option)
            return values[i];
    return NULL;
}

/* Nothing is compiled, so logs are empty and no time has passed. A program that prints its logs
 * must not print what was in the buffer. */
static void jit_answer(unsigned count, const CUjit_option *options, void **values) {
    char *info = jit_value(count, options, values, CU_JIT_INFO_LOG_BUFFER);
    char *error = jit_value(count, options, values, CU_JIT_ERROR_LOG_BUFFER);
    if (info && jit_value(count, options, values, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES))
        info[0] = '\0';
    if (error && jit_value(count, options, values, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES))
        error[0] = '\0';
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
            options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES || options[i] == CU_JIT_WALL_TIME)
            values[i] = NULL; /* 0 bytes, 0 milliseconds */
}

CUresult acre__soft_cuModuleLoadDataEx(CUmodule *module_out, const void *image, unsigned count,
                                       CUjit_option *options, void **values) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!module_out || !image || (count && (!options || !values)))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    jit_answer(count, options, values);
    return acre__soft_leave(module_load(device, image, module_out));
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

/* Hooks of calls that need device memory for something other than an allocation: code that is
 * loaded, at once or with its first use, graphs, and the stacks of kernels.
 *
 * If such a call returns CUDA_ERROR_OUT_OF_MEMORY, acre releases the memory that it holds idle, and
 * the driver is called again: a program that is served must not fail where it would not without
 * acre. Some of the calls are counted, too, as in shim_count.h, and those that use device memory
 * wait while it is away, as in shim_pause.h. */
#ifndef ACRE_SHIM_SHIM_RETRY_H
#define ACRE_SHIM_SHIM_RETRY_H

#include "shim.h"

/* X(symbol, params, args) */

/* Counted: they take memory that is not recorded. */
#define SHIM_LOADS(X)                                                                              \
    X(cuModuleLoad, (CUmodule * module_out, const char *path), (module_out, path))                 \
    X(cuModuleLoadFatBinary, (CUmodule * module_out, const void *image), (module_out, image))      \
    X(cuLibraryLoadData,                                                                           \
      (void **library_out, const void *image, void *jit_options, void **jit_values,                \
       unsigned int jit_count, void *options, void **values, unsigned int count),                  \
      (library_out, image, jit_options, jit_values, jit_count, options, values, count))            \
    X(cuLibraryLoadFromFile,                                                                       \
      (void **library_out, const char *path, void *jit_options, void **jit_values,                 \
       unsigned int jit_count, void *options, void **values, unsigned int count),                  \
      (library_out, path, jit_options, jit_values, jit_count, options, values, count))             \
    X(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))                                \
    X(cuCtxCreate_v2, (CUcontext * ctx_out, unsigned int flags, CUdevice dev),                     \
      (ctx_out, flags, dev))                                                                       \
    X(cuCtxCreate_v3,                                                                              \
      (CUcontext * ctx_out, void *params, int count, unsigned int flags, CUdevice dev),            \
      (ctx_out, params, count, flags, dev))                                                        \
    X(cuCtxCreate_v4,                                                                              \
      (CUcontext * ctx_out, CUctxCreateParams * params, unsigned int flags, CUdevice dev),         \
      (ctx_out, params, flags, dev))

/* Counted; the driver may reserve memory for nodes that allocate. */
#define SHIM_GRAPHS(X)                                                                             \
    X(cuGraphInstantiate,                                                                          \
      (CUgraphExec * exec_out, CUgraph graph, CUgraphNode * node_out, char *log, size_t bytes),    \
      (exec_out, graph, node_out, log, bytes))                                                     \
    X(cuGraphInstantiate_v2,                                                                       \
      (CUgraphExec * exec_out, CUgraph graph, CUgraphNode * node_out, char *log, size_t bytes),    \
      (exec_out, graph, node_out, log, bytes))                                                     \
    X(cuGraphInstantiateWithParams, (CUgraphExec * exec_out, CUgraph graph, void *params),         \
      (exec_out, graph, params))                                                                   \
    X(cuGraphInstantiateWithParams_ptsz, (CUgraphExec * exec_out, CUgraph graph, void *params),    \
      (exec_out, graph, params))                                                                   \
    X(cuGraphExecDestroy, (CUgraphExec exec), (exec))                                              \
    X(cuDeviceGraphMemTrim, (CUdevice dev), (dev))

/* Counted; as those before. Users of device memory. */
#define SHIM_GRAPH_UPLOADS(X)                                                                      \
    X(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))                          \
    X(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))

/* Not counted; users of device memory. */
#define SHIM_GRAPH_LAUNCHES(X)                                                                     \
    X(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))                          \
    X(cuGraphLaunch_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))

#define SHIM_LAUNCH_PARAMS                                                                         \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,           \
     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,  \
     CUstream stream, void **params, void **extra)
#define SHIM_LAUNCH_ARGS                                                                           \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params,    \
     extra)
#define SHIM_COOPERATIVE_PARAMS                                                                    \
    (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,           \
     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,  \
     CUstream stream, void **params)
#define SHIM_COOPERATIVE_ARGS                                                                      \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params)

/* Not counted: the first use of code that the driver loads lazily. Users of device memory. */
#define SHIM_LAUNCHES(X)                                                                           \
    X(cuLaunchKernel, SHIM_LAUNCH_PARAMS, SHIM_LAUNCH_ARGS)                                        \
    X(cuLaunchKernel_ptsz, SHIM_LAUNCH_PARAMS, SHIM_LAUNCH_ARGS)                                   \
    X(cuLaunchKernelEx, (const void *config, CUfunction function, void **params, void **extra),    \
      (config, function, params, extra))                                                           \
    X(cuLaunchKernelEx_ptsz,                                                                       \
      (const void *config, CUfunction function, void **params, void **extra),                      \
      (config, function, params, extra))                                                           \
    X(cuLaunchCooperativeKernel, SHIM_COOPERATIVE_PARAMS, SHIM_COOPERATIVE_ARGS)                   \
    X(cuLaunchCooperativeKernel_ptsz, SHIM_COOPERATIVE_PARAMS, SHIM_COOPERATIVE_ARGS)              \
    X(cuLaunchCooperativeKernelMultiDevice,                                                        \
      (void *launches, unsigned int count, unsigned int flags), (launches, count, flags))          \
    X(cuLaunch, (CUfunction function), (function))                                                 \
    X(cuLaunchGrid, (CUfunction function, int grid_x, int grid_y), (function, grid_x, grid_y))     \
    X(cuLaunchGridAsync, (CUfunction function, int grid_x, int grid_y, CUstream stream),           \
      (function, grid_x, grid_y, stream))

/* Not counted, and no users: they load code. */
#define SHIM_FIRST_USES(X)                                                                         \
    X(cuModuleGetFunction, (CUfunction * function_out, CUmodule module, const char *name),         \
      (function_out, module, name))                                                                \
    X(cuModuleGetGlobal_v2,                                                                        \
      (CUdeviceptr * ptr_out, size_t * bytes_out, CUmodule module, const char *name),              \
      (ptr_out, bytes_out, module, name))                                                          \
    X(cuKernelGetFunction, (CUfunction * function_out, void *kernel), (function_out, kernel))      \
    X(cuLibraryGetModule, (CUmodule * module_out, void *library), (module_out, library))           \
    X(cuLibraryGetGlobal,                                                                          \
      (CUdeviceptr * ptr_out, size_t * bytes_out, void *library, const char *name),                \
      (ptr_out, bytes_out, library, name))                                                         \
    X(cuFuncLoad, (CUfunction function), (function))                                               \
    X(cuFuncGetAttribute, (int *value_out, int attribute, CUfunction function),                    \
      (value_out, attribute, function))                                                            \
    X(cuFuncSetAttribute, (CUfunction function, int attribute, int value),                         \
      (function, attribute, value))

#define SHIM_RETRIED(X)                                                                            \
    SHIM_LOADS(X)                                                                                  \
    SHIM_GRAPHS(X)                                                                                 \
    SHIM_GRAPH_UPLOADS(X)                                                                          \
    SHIM_GRAPH_LAUNCHES(X)                                                                         \
    SHIM_LAUNCHES(X)                                                                               \
    SHIM_FIRST_USES(X)

#define SHIM_RETRY_PROTOTYPE(symbol, params, args) SHIM_EXPORT CUresult symbol params;
SHIM_RETRIED(SHIM_RETRY_PROTOTYPE)
#undef SHIM_RETRY_PROTOTYPE

#endif

/*
 * Conformance: limits (mainly of the in-kernel heap), modules, and launches (GPU only).
 *
 * The heap limit may be set until a module that uses malloc is loaded. Group limits loads modules
 * eagerly (CONF_EAGER). By default a GPU driver loads a function lazily, at its first use, which
 * group launch shows.
 */
#include "conformance.h"

#define PTX_HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"

static const char ptx_plain[] = PTX_HEAD ".visible .entry set_word(.param .u64 where)\n"
                                         "{\n"
                                         "    .reg .b64 %a<3>;\n"
                                         "    .reg .b32 %v;\n"
                                         "    ld.param.u64 %a1, [where];\n"
                                         "    cvta.to.global.u64 %a2, %a1;\n"
                                         "    mov.u32 %v, 77;\n"
                                         "    st.global.u32 [%a2], %v;\n"
                                         "    ret;\n"
                                         "}\n";

static const char ptx_malloc[] =
    PTX_HEAD ".extern .func (.param .b64 result) malloc (.param .b64 bytes);\n"
             ".visible .entry take(.param .u64 where)\n"
             "{\n"
             "    .reg .b64 %a<6>;\n"
             "    ld.param.u64 %a1, [where];\n"
             "    cvta.to.global.u64 %a2, %a1;\n"
             "    mov.u64 %a3, 64;\n"
             "    {\n"
             "    .param .b64 p0;\n"
             "    .param .b64 r0;\n"
             "    st.param.b64 [p0+0], %a3;\n"
             "    call.uni (r0), malloc, (p0);\n"
             "    ld.param.b64 %a4, [r0+0];\n"
             "    }\n"
             "    st.global.u64 [%a2], %a4;\n"
             "    ret;\n"
             "}\n";

static void limits_say(const char *label, CUlimit limit) {
    size_t value = 0;
    CUresult code = conf.drv->cuCtxGetLimit(&value, limit);

    conf_value(label, code, (long long)value);
}

static void limits_defaults(void) {
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
    limits_say("stack", CU_LIMIT_STACK_SIZE);
    limits_say("printf", CU_LIMIT_PRINTF_FIFO_SIZE);
    conf_code("get-bad", conf.drv->cuCtxGetLimit(&(size_t){0}, (CUlimit)99));
    conf_code("set-bad", conf.drv->cuCtxSetLimit((CUlimit)99, 1));
}

static void limits_stack(void) {
    conf_code("set", conf.drv->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    limits_say("stack", CU_LIMIT_STACK_SIZE);
    conf_code("back", conf.drv->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    limits_say("stack", CU_LIMIT_STACK_SIZE);
    conf_code("printf-set", conf.drv->cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 << 20));
    limits_say("printf", CU_LIMIT_PRINTF_FIFO_SIZE);
}

static void limits_heap_before_module(void) {
    conf_code("set", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 << 20));
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
    conf_code("set-odd", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, (12 << 20) + 5));
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
    conf_code("set-0", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0));
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
    conf_code("set-8", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20));
}

static void limits_heap_after_plain_module(void) {
    CUmodule module = NULL;

    conf_code("load", conf.drv->cuModuleLoadData(&module, ptx_plain));
    conf_code("set", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 10 << 20));
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
    conf_code("unload", conf.drv->cuModuleUnload(module));
}

/* Last in its process: the heap exists from here on. */
static void limits_heap_after_malloc_module(void) {
    CUmodule module = NULL;

    conf_code("set", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 12 << 20));
    conf_code("load", conf.drv->cuModuleLoadData(&module, ptx_malloc));
    conf_code("set-larger", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 24 << 20));
    conf_code("set-same", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 12 << 20));
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
    conf_code("stack", conf.drv->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
    conf_code("unload", conf.drv->cuModuleUnload(module));
    conf_code("set-unloaded", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 24 << 20));
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
}

static void limits_modules(void) {
    CUmodule module = NULL;

    conf_code("load", conf.drv->cuModuleLoadData(&module, ptx_plain));
    conf_fact("set", module != NULL);
    conf_code("unload", conf.drv->cuModuleUnload(module));
    conf_code("unload-null", conf.drv->cuModuleUnload(NULL));
    module = NULL;
    conf_code("load-junk", conf.drv->cuModuleLoadData(&module, "hello"));
    conf_code("load-null", conf.drv->cuModuleLoadData(&module, NULL));
}

/* The call with options loads what the call without them loads. */
static void limits_modules_options(void) {
    CUjit_option options[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    char log[1024] = "";
    void *values[2] = {log, (void *)(uintptr_t)sizeof log};
    CUmodule module = NULL;

    conf_code("load", conf.drv->cuModuleLoadDataEx(&module, ptx_plain, 0, NULL, NULL));
    conf_fact("set", module != NULL);
    conf_code("unload", conf.drv->cuModuleUnload(module));
    conf_code("load-logged", conf.drv->cuModuleLoadDataEx(&module, ptx_plain, 2, options, values));
    conf_fact("no-errors", log[0] == '\0');
    conf_code("unload", conf.drv->cuModuleUnload(module));
    conf_code("load-junk", conf.drv->cuModuleLoadDataEx(&module, "hello", 0, NULL, NULL));
}

static const struct conf_case limits_cases[] = {
    {"defaults", limits_defaults, CONF_ALONE},
    {"stack", limits_stack, CONF_ALONE},
    {"modules", limits_modules, CONF_ALONE},
    {"modules-options", limits_modules_options, CONF_ALONE},
    {"heap-before-module", limits_heap_before_module, CONF_ALONE},
    {"heap-after-plain-module", limits_heap_after_plain_module, CONF_ALONE},
    {"heap-after-malloc-module", limits_heap_after_malloc_module, CONF_ALONE},
};
CONF_GROUP(limits, CONF_EAGER);

/* ---- launches: GPU only ---------------------------------------------------------------------- */

static CUresult launch_one(CUfunction function, CUdeviceptr where) {
    void *params[] = {&where};

    return conf.drv->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

static void launch_plain(void) {
    CUfunction function = NULL;
    CUmodule module = NULL;
    CUdeviceptr word = 0;

    if (conf_need("load", conf.drv->cuModuleLoadData(&module, ptx_plain)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&word, 4096)) != 0)
        return;
    conf_code("function", conf.drv->cuModuleGetFunction(&function, module, "set_word"));
    conf_code("function-bad", conf.drv->cuModuleGetFunction(&(CUfunction){NULL}, module, "none"));
    conf_code("launch", launch_one(function, word));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_fact("word", conf_peek(word));
    conf_code("launch-0-blocks", conf.drv->cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL,
                                                          (void *[]){&word}, NULL));
    conf_need("free", conf.drv->cuMemFree(word));
    conf_need("unload", conf.drv->cuModuleUnload(module));
}

/* A kernel accesses a mapped chunk, and host memory through its device pointer. */
static void launch_on_mapped(void) {
    CUfunction function = NULL;
    CUmodule module = NULL;
    CUdeviceptr seen = 0;
    struct conf_range range;
    void *host = NULL;

    if (conf_need("load", conf.drv->cuModuleLoadData(&module, ptx_plain)) != 0 ||
        conf_need("function", conf.drv->cuModuleGetFunction(&function, module, "set_word")) != 0 ||
        conf_range_make(&range, 1, 1, conf.chunk_bytes) != 0)
        return;
    conf_code("launch", launch_one(function, range.base));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_fact("word", conf_peek(range.base));
    conf_range_drop(&range);
    if (conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP)) != 0)
        return;
    *(volatile uint32_t *)host = 0;
    conf_code("pointer", conf.drv->cuMemHostGetDevicePointer(&seen, host, 0));
    conf_code("launch", launch_one(function, seen));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_fact("word", *(volatile uint32_t *)host);
    conf_need("free", conf.drv->cuMemFreeHost(host));
    conf_need("unload", conf.drv->cuModuleUnload(module));
}

/* By default functions are loaded lazily. Shows until when the heap limit may be set. */
static void launch_heap_limit(void) {
    CUfunction function = NULL;
    CUmodule module = NULL;
    CUdeviceptr word = 0;
    uint64_t block = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&word, 4096)) != 0)
        return;
    conf_code("load", conf.drv->cuModuleLoadData(&module, ptx_malloc));
    conf_code("set-loaded", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 10 << 20));
    conf_code("function", conf.drv->cuModuleGetFunction(&function, module, "take"));
    conf_code("set-function", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 12 << 20));
    conf_code("launch", launch_one(function, word));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_code("set-launched", conf.drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 14 << 20));
    limits_say("heap", CU_LIMIT_MALLOC_HEAP_SIZE);
    conf_code("copy-word", conf.drv->cuMemcpyDtoH(&block, word, sizeof block));
    conf_fact("got-memory", block != 0);
    conf_code("copy-block", conf.drv->cuMemcpyDtoH(&(uint64_t){0}, block, 8));
    conf_code("free-block", conf.drv->cuMemFree(block));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static const struct conf_case launch_cases[] = {
    {"plain", launch_plain, CONF_CUDA},
    {"on-mapped", launch_on_mapped, CONF_CUDA},
    {"heap-limit", launch_heap_limit, CONF_CUDA | CONF_ALONE},
};
CONF_GROUP(launch, 0);

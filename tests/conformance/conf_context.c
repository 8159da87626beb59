/*
 * Conformance: contexts that a program creates, and a reset of the primary context. Cases that may
 * crash a driver, such as calls with a destroyed context, run alone.
 */
#include <pthread.h>
#include <string.h>

#include "conformance.h"

/* ---- contexts of the program ----------------------------------------------------------------- */

/* Creates a context and makes it current. Returns NULL on failure. */
static CUcontext own_make(void) {
    CUcontext ctx = NULL;

    return conf_need("create", conf.drv->cuCtxCreate(&ctx, NULL, 0, conf.dev)) == 0 ? ctx : NULL;
}

static void own_say_current(const char *label, CUcontext expected) {
    CUcontext ctx = NULL;
    CUresult code = conf.drv->cuCtxGetCurrent(&ctx);

    conf_value(label, code, ctx == expected);
}

static void own_create(void) {
    unsigned long long id = 0, primary_id = 0;
    unsigned int version = 0;
    CUcontext ctx = NULL;
    CUdevice dev = 99;

    conf_code("create", conf.drv->cuCtxCreate(&ctx, NULL, 0, conf.dev));
    conf_fact("another", ctx != conf.ctx);
    own_say_current("is-current", ctx);
    conf_code("device", conf.drv->cuCtxGetDevice(&dev));
    conf_fact("ordinal", dev);
    conf_code("version", conf.drv->cuCtxGetApiVersion(ctx, &version));
    conf_fact("number", version);
    conf_code("id", conf.drv->cuCtxGetId(ctx, &id));
    conf_code("id-current", conf.drv->cuCtxGetId(NULL, &primary_id));
    conf_fact("same", id == primary_id);
    conf_code("id-primary", conf.drv->cuCtxGetId(conf.ctx, &primary_id));
    conf_fact("same", id == primary_id);
    conf_code("version-current", conf.drv->cuCtxGetApiVersion(NULL, &version));
    conf_code("version-primary", conf.drv->cuCtxGetApiVersion(conf.ctx, &version));
    conf_fact("number", version);
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_code("destroy", conf.drv->cuCtxDestroy(ctx));
    own_say_current("primary-again", conf.ctx);
}

static void own_flags(void) {
    static const unsigned int flags[] = {0, 1, 2, 3, 4, 5, 7, 8, 0x10, 0x18, 0x80, 0x100};
    static const char *const labels[] = {"0", "1", "2",  "3",  "4",  "5",
                                         "7", "8", "10", "18", "80", "100"};
    int i;

    for (i = 0; i < 12; i++) {
        unsigned int got = 99;
        CUcontext ctx = NULL;

        if (conf_code(labels[i], conf.drv->cuCtxCreate(&ctx, NULL, flags[i], conf.dev)) !=
            CUDA_SUCCESS)
            continue;
        conf_code("get", conf.drv->cuCtxGetFlags(&got));
        conf_fact("flags", got);
        conf_need("destroy", conf.drv->cuCtxDestroy(ctx));
    }
}

static void own_say_set_flags(void) {
    static const unsigned int flags[] = {4, 0, 0x80, 3, 0x100};
    static const char *const labels[] = {"4", "0", "80", "3", "100"};
    int i;

    for (i = 0; i < 5; i++) {
        unsigned int got = 99;

        conf_code(labels[i], conf.drv->cuCtxSetFlags(flags[i]));
        conf_code("get", conf.drv->cuCtxGetFlags(&got));
        conf_fact("flags", got);
    }
}

/* The primary context always reports that host memory is mapped. */
static void own_set_flags(void) {
    CUcontext ctx = own_make();

    if (ctx == NULL)
        return;
    own_say_set_flags();
    conf_need("destroy", conf.drv->cuCtxDestroy(ctx));
    own_say_current("primary", conf.ctx);
    own_say_set_flags();
    conf_code("0", conf.drv->cuCtxSetFlags(0));
    conf.drv->cuCtxSetCurrent(NULL);
    conf_code("none", conf.drv->cuCtxSetFlags(0));
    conf.drv->cuCtxSetCurrent(conf.ctx);
}

static void own_bad(void) {
    CUcontext ctx = NULL;
    unsigned int number = 0;
    unsigned long long id = 0;

    conf_code("device", conf.drv->cuCtxCreate(&ctx, NULL, 0, 4711));
    conf_code("minus-one", conf.drv->cuCtxCreate(&ctx, NULL, 0, -1));
    own_say_current("primary-still", conf.ctx);
    conf.drv->cuCtxSetCurrent(NULL);
    conf_code("flags-none", conf.drv->cuCtxGetFlags(&number));
    conf_code("version-none", conf.drv->cuCtxGetApiVersion(NULL, &number));
    conf_code("id-none", conf.drv->cuCtxGetId(NULL, &id));
    conf_code("version-given", conf.drv->cuCtxGetApiVersion(conf.ctx, &number));
    conf.drv->cuCtxSetCurrent(conf.ctx);
}

static void own_null_create(void) {
    conf_code("create", conf.drv->cuCtxCreate(NULL, NULL, 0, conf.dev));
}

static void own_null_destroy(void) {
    conf_code("destroy", conf.drv->cuCtxDestroy(NULL));
    own_say_current("primary-still", conf.ctx);
}

static void own_null_outputs(void) {
    conf_code("flags", conf.drv->cuCtxGetFlags(NULL));
    conf_code("version", conf.drv->cuCtxGetApiVersion(conf.ctx, NULL));
    conf_code("id", conf.drv->cuCtxGetId(conf.ctx, NULL));
}

static void own_params(void) {
    CUctxCreateParams params;
    CUcontext ctx = NULL;

    memset(&params, 0, sizeof params);
    conf_code("empty", conf.drv->cuCtxCreate(&ctx, &params, 0, conf.dev));
}

static void own_destroy_primary(void) {
    CUdeviceptr ptr = 0;

    conf_code("destroy", conf.drv->cuCtxDestroy(conf.ctx));
    own_say_current("primary-still", conf.ctx);
    conf_code("alloc", conf.drv->cuMemAlloc(&ptr, 4096));
}

static void own_limits(void) {
    size_t bytes = 0;
    CUcontext ctx = own_make();

    if (ctx == NULL)
        return;
    conf_code("set", conf.drv->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
    conf.drv->cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE);
    conf_fact("own", (long long)bytes);
    conf.drv->cuCtxPushCurrent(conf.ctx);
    conf.drv->cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE);
    conf_fact("primary", (long long)bytes);
    conf.drv->cuCtxPopCurrent(NULL);
    conf_need("destroy", conf.drv->cuCtxDestroy(ctx));
}

/* Memory reports its context; the other context can access and free it, too. */
static void own_memory(void) {
    CUcontext ctx = own_make(), whose = NULL;
    CUdeviceptr ptr = 0, other = 0;
    void *host = NULL;
    uint32_t word = 0;

    if (ctx == NULL || conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0 ||
        conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, 0)) != 0)
        return;
    conf_code("whose", conf.drv->cuPointerGetAttribute(&whose, CU_POINTER_ATTRIBUTE_CONTEXT, ptr));
    conf_fact("own", whose == ctx);
    conf_code("host-whose", conf.drv->cuPointerGetAttribute(&whose, CU_POINTER_ATTRIBUTE_CONTEXT,
                                                            (CUdeviceptr)(uintptr_t)host));
    conf_fact("own", whose == ctx);
    conf_code("poke", conf_poke(ptr, 5));
    conf.drv->cuCtxPopCurrent(NULL);
    conf_need("alloc", conf.drv->cuMemAlloc(&other, 4096));
    conf_code("read", conf.drv->cuMemcpyDtoH(&word, ptr, 4));
    conf_fact("word", word);
    conf_code("copy", conf.drv->cuMemcpyDtoD(other, ptr, 4));
    conf_fact("word", conf_peek(other));
    conf_code("peer", conf.drv->cuMemcpyPeer(other + 4, conf.ctx, ptr, ctx, 4));
    conf_fact("word", conf_peek(other + 4));
    conf_code("enable-peer", conf.drv->cuCtxEnablePeerAccess(ctx, 0));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("free-host", conf.drv->cuMemFreeHost(host));
    conf_need("free", conf.drv->cuMemFree(other));
    conf_need("destroy", conf.drv->cuCtxDestroy(ctx));
}

static void own_fill(void) {
    CUcontext ctx = own_make();
    CUdeviceptr ptr = 0;

    if (ctx == NULL || conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0)
        return;
    conf.drv->cuCtxPopCurrent(NULL);
    conf_code("fill", conf.drv->cuMemsetD32(ptr, 6, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_fact("read", conf_peek(ptr));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

/* Which work cuMemFree waits for, if the memory belongs to another context than the current one. */
static void own_free_waits(void) {
    CUcontext ctx = NULL;
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;
    struct conf_gate gate;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0 ||
        (ctx = own_make()) == NULL || conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0)
        return;
    conf.drv->cuCtxPopCurrent(NULL);
    if (conf_gate_close(&gate, stream) == 0) {
        conf_code("free", conf.drv->cuMemFree(ptr));
        conf_fact("gate-holds", conf_gate_holds(&gate));
        conf_gate_open(&gate);
    }
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

/* As free-waits, for host memory. */
static void own_free_host_waits(void) {
    static unsigned char pages[2 << 20];
    CUcontext ctx = NULL;
    CUstream stream = NULL;
    struct conf_gate gate;
    void *host = NULL;
    int way;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0 ||
        (ctx = own_make()) == NULL ||
        conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_PORTABLE)) != 0 ||
        conf_need("register", conf.drv->cuMemHostRegister(pages, sizeof pages,
                                                          CU_MEMHOSTREGISTER_PORTABLE)) != 0)
        return;
    conf.drv->cuCtxPopCurrent(NULL);
    for (way = 0; way < 2; way++) {
        if (conf_gate_close(&gate, stream) != 0)
            return;
        if (way == 0)
            conf_code("free", conf.drv->cuMemFreeHost(host));
        else
            conf_code("unregister", conf.drv->cuMemHostUnregister(pages));
        conf_fact("gate-holds", conf_gate_holds(&gate));
        conf_gate_open(&gate);
        conf_need("sync", conf.drv->cuCtxSynchronize());
    }
}

/* Destroying a context frees its memory. */
static void own_end_of_memory(void) {
    CUdeviceptr ptr = 0, large = 0, managed = 0;
    size_t before = 0, after = 0, total = 0;
    CUcontext ctx = NULL;
    void *host = NULL;
    unsigned int type = 0;

    if ((ctx = own_make()) == NULL)
        return;
    conf.drv->cuMemGetInfo(&before, &total);
    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&large, 32 << 20)) != 0 ||
        conf_need("managed", conf.drv->cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL)) !=
            0 ||
        conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, 0)) != 0)
        return;
    conf_code("destroy", conf.drv->cuCtxDestroy(ctx));
    conf.drv->cuMemGetInfo(&after, &total);
    conf_fact("given-back", after >= before);
    conf_code("type",
              conf.drv->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("free-large", conf.drv->cuMemFree(large));
    conf_code("free-managed", conf.drv->cuMemFree(managed));
    conf_code("free-host", conf.drv->cuMemFreeHost(host));
    conf_code("fill", conf.drv->cuMemsetD8(large, 1, 16));
}

/* Chunks and reservations belong to no context. */
static void own_end_by_hand(void) {
    struct conf_range range;
    CUcontext ctx = own_make();

    if (ctx == NULL || conf_range_make(&range, 1, 1, conf.chunk_bytes) != 0)
        return;
    conf_code("poke", conf_poke(range.base, 8));
    conf_code("destroy", conf.drv->cuCtxDestroy(ctx));
    conf_fact("still", conf_peek(range.base));
    conf_range_drop(&range);
}

static void own_streams(void) {
    CUstream own = NULL, primary = NULL;
    CUevent event = NULL;
    CUcontext ctx = NULL, whose = NULL;
    CUdeviceptr ptr = 0;

    if (conf_need("stream", conf.drv->cuStreamCreate(&primary, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0 || (ctx = own_make()) == NULL ||
        conf_need("stream", conf.drv->cuStreamCreate(&own, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&event, 0)) != 0)
        return;
    conf_code("whose", conf.drv->cuStreamGetCtx(own, &whose));
    conf_fact("own", whose == ctx);
    conf_code("whose", conf.drv->cuStreamGetCtx(NULL, &whose));
    conf_fact("own", whose == ctx);
    conf_code("query-other", conf.drv->cuStreamQuery(primary));
    conf_code("fill-on-other", conf.drv->cuMemsetD8Async(ptr, 1, 16, primary));
    conf_code("copy-on-other", conf.drv->cuMemcpyDtoDAsync(ptr, ptr + 64, 16, primary));
    conf_code("record-on-other", conf.drv->cuEventRecord(event, primary));
    conf_code("record", conf.drv->cuEventRecord(event, own));
    conf_code("wait-on-other", conf.drv->cuStreamWaitEvent(primary, event, 0));
    conf_code("sync-other", conf.drv->cuStreamSynchronize(primary));
    conf_code("destroy", conf.drv->cuCtxDestroy(ctx));
    conf_code("sync", conf.drv->cuStreamSynchronize(primary));
    conf_need("destroy", conf.drv->cuStreamDestroy(primary));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

/* ---- destroyed contexts ---------------------------------------------------------------------- */

/* A destroyed context below another on the stack becomes current when that one is destroyed. */
static void own_dead_on_stack(void) {
    CUcontext first = own_make(), second = own_make(), popped = NULL;
    CUdeviceptr ptr = 0;
    CUdevice dev = 99;
    unsigned int version = 0;

    conf_code("destroy-lower", conf.drv->cuCtxDestroy(first));
    own_say_current("second", second);
    conf_code("destroy", conf.drv->cuCtxDestroy(second));
    own_say_current("first", first);
    conf_code("alloc", conf.drv->cuMemAlloc(&ptr, 4096));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_code("device", conf.drv->cuCtxGetDevice(&dev));
    conf_code("version", conf.drv->cuCtxGetApiVersion(NULL, &version));
    conf_code("query", conf.drv->cuStreamQuery(NULL));
    conf_code("pop", conf.drv->cuCtxPopCurrent(&popped));
    conf_fact("first", popped == first);
    own_say_current("primary", conf.ctx);
}

struct own_thread {
    pthread_barrier_t barrier;
    CUcontext ctx;
    CUresult push, before, alloc, sync, device, flags, version, get, free, set;
    int is_same;
};

static void *own_thread_run(void *arg) {
    struct own_thread *t = arg;
    CUdeviceptr ptr = 0, more = 0;
    CUcontext ctx = NULL;
    CUdevice dev;
    unsigned int number;

    t->push = conf.drv->cuCtxPushCurrent(t->ctx);
    t->before = conf.drv->cuMemAlloc(&ptr, 4096);
    pthread_barrier_wait(&t->barrier);
    pthread_barrier_wait(&t->barrier);
    t->get = conf.drv->cuCtxGetCurrent(&ctx);
    t->is_same = ctx == t->ctx;
    t->alloc = conf.drv->cuMemAlloc(&more, 4096);
    t->sync = conf.drv->cuCtxSynchronize();
    t->device = conf.drv->cuCtxGetDevice(&dev);
    t->flags = conf.drv->cuCtxGetFlags(&number);
    t->version = conf.drv->cuCtxGetApiVersion(NULL, &number);
    t->free = conf.drv->cuMemFree(ptr);
    t->set = conf.drv->cuCtxSetCurrent(conf.ctx);
    return NULL;
}

/* A context destroyed by one thread stays current on another. */
static void own_dead_on_thread(void) {
    struct own_thread t;
    pthread_t thread;

    memset(&t, 0, sizeof t);
    t.ctx = own_make();
    pthread_barrier_init(&t.barrier, NULL, 2);
    if (pthread_create(&thread, NULL, own_thread_run, &t) != 0)
        return;
    pthread_barrier_wait(&t.barrier);
    conf_code("destroy", conf.drv->cuCtxDestroy(t.ctx));
    pthread_barrier_wait(&t.barrier);
    pthread_join(thread, NULL);
    conf_code("push", t.push);
    conf_code("before", t.before);
    conf_code("get", t.get);
    conf_fact("same", t.is_same);
    conf_code("alloc", t.alloc);
    conf_code("sync", t.sync);
    conf_code("device", t.device);
    conf_code("flags", t.flags);
    conf_code("version", t.version);
    conf_code("free", t.free);
    conf_code("set", t.set);
}

static void own_dead_asked(void) {
    CUcontext ctx = own_make();
    unsigned int version = 0;

    conf_code("destroy", conf.drv->cuCtxDestroy(ctx));
    conf_code("version", conf.drv->cuCtxGetApiVersion(ctx, &version));
}

/* The driver returns one of two codes at random. */
static void own_dead_destroyed(void) {
    CUcontext ctx = own_make();
    CUresult code;

    conf_code("destroy", conf.drv->cuCtxDestroy(ctx));
    code = conf.drv->cuCtxDestroy(ctx);
    conf_fact("refused",
              code == CUDA_ERROR_INVALID_CONTEXT || code == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static const struct conf_case own_cases[] = {
    {"create", own_create, 0},
    {"flags", own_flags, 0},
    {"set-flags", own_set_flags, 0},
    {"bad", own_bad, 0},
    {"null-create", own_null_create, CONF_ALONE},
    {"null-destroy", own_null_destroy, CONF_ALONE},
    {"null-outputs", own_null_outputs, CONF_ALONE},
    {"params", own_params, CONF_ALONE},
    {"destroy-primary", own_destroy_primary, CONF_ALONE},
    {"limits", own_limits, 0},
    {"memory", own_memory, 0},
    {"fill", own_fill, CONF_ALONE},
    {"free-waits", own_free_waits, CONF_ALONE},
    {"free-host-waits", own_free_host_waits, CONF_ALONE},
    {"end-of-memory", own_end_of_memory, CONF_ALONE},
    {"end-by-hand", own_end_by_hand, 0},
    {"streams", own_streams, CONF_ALONE},
    {"dead-on-stack", own_dead_on_stack, CONF_ALONE},
    {"dead-on-thread", own_dead_on_thread, CONF_ALONE},
    {"dead-asked", own_dead_asked, CONF_ALONE},
    {"dead-destroyed", own_dead_destroyed, CONF_ALONE},
};
CONF_GROUP(own, 0);

/* ---- reset of the primary context ------------------------------------------------------------ */

static void reset_say_state(void) {
    unsigned int flags = 99;
    int active = -1;
    CUresult code = conf.drv->cuDevicePrimaryCtxGetState(conf.dev, &flags, &active);

    conf_value("flags", code, flags);
    conf_value("active", code, active);
}

/* A reset destroys everything in the context, whatever its reference count. Retained again it is
 * new, and still current. */
static void reset_memory(void) {
    CUdeviceptr ptr = 0, large = 0, after = 0;
    size_t bytes = 0;
    void *host = NULL;
    CUcontext again = NULL;
    CUdevice dev = 99;
    unsigned int version = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&large, 32 << 20)) != 0 ||
        conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, 0)) != 0 ||
        conf_need("limit", conf.drv->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192)) != 0)
        return;
    conf_code("reset", conf.drv->cuDevicePrimaryCtxReset(conf.dev));
    reset_say_state();
    own_say_current("current", conf.ctx);
    conf_code("alloc", conf.drv->cuMemAlloc(&after, 4096));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_code("device", conf.drv->cuCtxGetDevice(&dev));
    conf_code("version", conf.drv->cuCtxGetApiVersion(conf.ctx, &version));
    conf_code("set", conf.drv->cuCtxSetCurrent(conf.ctx));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("retain", conf.drv->cuDevicePrimaryCtxRetain(&again, conf.dev));
    conf_fact("same", again == conf.ctx);
    reset_say_state();
    conf_code("alloc", conf.drv->cuMemAlloc(&after, 4096));
    conf_code("free", conf.drv->cuMemFree(large));
    conf_code("free-host", conf.drv->cuMemFreeHost(host));
    conf.drv->cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE);
    conf_fact("stack", (long long)bytes);
    conf_code("free", conf.drv->cuMemFree(after));
}

/* A reset does not change the reference count. */
static void reset_counts(void) {
    CUcontext again = NULL;

    conf_code("retain", conf.drv->cuDevicePrimaryCtxRetain(&again, conf.dev));
    conf_code("reset", conf.drv->cuDevicePrimaryCtxReset(conf.dev));
    conf_code("again", conf.drv->cuDevicePrimaryCtxReset(conf.dev));
    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    conf_code("retain", conf.drv->cuDevicePrimaryCtxRetain(&again, conf.dev));
    reset_say_state();
    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    reset_say_state();
    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    reset_say_state();
    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
}

/* The primary context while it is inactive. */
static void reset_inactive(void) {
    CUdeviceptr ptr = 0;
    CUcontext again = NULL;
    CUdevice dev = 99;
    unsigned int flags = 99;
    size_t bytes = 0;

    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    conf_code("alloc", conf.drv->cuMemAlloc(&ptr, 4096));
    conf_code("reset", conf.drv->cuDevicePrimaryCtxReset(conf.dev));
    reset_say_state();
    conf_code("set", conf.drv->cuCtxSetCurrent(conf.ctx));
    conf_code("push", conf.drv->cuCtxPushCurrent(conf.ctx));
    conf_code("alloc", conf.drv->cuMemAlloc(&ptr, 4096));
    conf_code("device", conf.drv->cuCtxGetDevice(&dev));
    conf_code("get-flags", conf.drv->cuCtxGetFlags(&flags));
    conf_code("version", conf.drv->cuCtxGetApiVersion(conf.ctx, &flags));
    conf_code("limit", conf.drv->cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
    conf_code("priorities", conf.drv->cuCtxGetStreamPriorityRange(NULL, NULL));
    conf_code("set-flags", conf.drv->cuDevicePrimaryCtxSetFlags(conf.dev, 1));
    reset_say_state();
    conf_code("retain", conf.drv->cuDevicePrimaryCtxRetain(&again, conf.dev));
    reset_say_state();
    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    reset_say_state();
    conf_code("bad-device", conf.drv->cuDevicePrimaryCtxReset(4711));
}

static void reset_flags(void) {
    unsigned int flags = 99;

    reset_say_state();
    conf_code("get", conf.drv->cuCtxGetFlags(&flags));
    conf_fact("flags", flags);
    conf_code("set", conf.drv->cuDevicePrimaryCtxSetFlags(conf.dev, CU_CTX_SCHED_BLOCKING_SYNC));
    reset_say_state();
    conf_code("get", conf.drv->cuCtxGetFlags(&flags));
    conf_fact("flags", flags);
    conf_code("two", conf.drv->cuDevicePrimaryCtxSetFlags(conf.dev, 3));
    conf_code("100", conf.drv->cuDevicePrimaryCtxSetFlags(conf.dev, 0x100));
    conf_code("bad-device", conf.drv->cuDevicePrimaryCtxSetFlags(4711, 0));
    conf_code("reset", conf.drv->cuDevicePrimaryCtxReset(conf.dev));
    reset_say_state();
}

/* A reset does not affect other contexts of the device. */
static void reset_beside_own(void) {
    CUcontext ctx = own_make();
    CUdeviceptr ptr = 0;

    if (ctx == NULL || conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0)
        return;
    conf_code("reset", conf.drv->cuDevicePrimaryCtxReset(conf.dev));
    own_say_current("own", ctx);
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("destroy", conf.drv->cuCtxDestroy(ctx));
}

static const struct conf_case reset_cases[] = {
    {"memory", reset_memory, CONF_ALONE},         {"counts", reset_counts, CONF_ALONE},
    {"inactive", reset_inactive, CONF_ALONE},     {"flags", reset_flags, CONF_ALONE},
    {"beside-own", reset_beside_own, CONF_ALONE},
};
CONF_GROUP(reset, 0);

/*
 * Conformance: stream-ordered memory.
 *
 * Blocks are larger than the step in which a driver grows a pool, so that the rest of the pool does
 * not hide what happens to one block. Drivers differ in how many bytes a pool keeps beyond the
 * requests, so the cases print only what must hold.
 */
#include "conf_pool.h"

#include <stdint.h>

enum { ASYNC_BYTES = 64 << 20 };

/* A pool and two streams that are not ordered. The gate is a member because a stream may read it
 * until the final synchronisation. */
struct async {
    CUmemoryPool pool;
    CUstream one, two;
    struct conf_gate gate;
};

static int async_make(struct async *a) {
    memset(a, 0, sizeof *a);
    return pool_make(&a->pool) != 0 ||
           conf_need("stream", conf.drv->cuStreamCreate(&a->one, CU_STREAM_NON_BLOCKING)) != 0 ||
           conf_need("stream", conf.drv->cuStreamCreate(&a->two, CU_STREAM_NON_BLOCKING)) != 0;
}

static void async_drop(struct async *a) {
    conf_need("sync", conf.drv->cuCtxSynchronize());
    conf_need("destroy", conf.drv->cuStreamDestroy(a->one));
    conf_need("destroy", conf.drv->cuStreamDestroy(a->two));
    conf_need("destroy", conf.drv->cuMemPoolDestroy(a->pool));
}

/* A case with these objects. */
#define ASYNC_CASE(name)                                                                           \
    static void name##_with(struct async *a);                                                      \
    static void name(void) {                                                                       \
        struct async a;                                                                            \
        if (async_make(&a) != 0)                                                                   \
            return;                                                                                \
        name##_with(&a);                                                                           \
        async_drop(&a);                                                                            \
    }                                                                                              \
    static void name##_with(struct async *a)

static CUdeviceptr async_take(struct async *a, size_t bytes, CUstream stream) {
    CUdeviceptr ptr = 0;

    conf_need("take", conf.drv->cuMemAllocFromPoolAsync(&ptr, bytes, a->pool, stream));
    return ptr;
}

ASYNC_CASE(async_sizes) {
    CUdeviceptr ptr = 0;

    conf_code("byte", conf.drv->cuMemAllocAsync(&ptr, 1, a->one));
    conf_fact("aligned-256", ptr % 256 == 0);
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_code("16-mib", conf.drv->cuMemAllocAsync(&ptr, 16 << 20, a->one));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_code("above-device",
              conf.drv->cuMemAllocAsync(&ptr, conf.device_bytes + (64 << 20), a->one));
    conf_code("largest", conf.drv->cuMemAllocAsync(&ptr, ~(size_t)0, a->one));
    conf_code("no-output", conf.drv->cuMemAllocAsync(NULL, 4096, a->one));
    conf_code("null-pool", conf.drv->cuMemAllocFromPoolAsync(&ptr, 4096, NULL, a->one));
    conf_code("after", conf.drv->cuMemAllocAsync(&ptr, 4096, NULL));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, NULL));
    conf_code("per-thread", conf.drv->cuMemAllocAsync(&ptr, 4096, CU_STREAM_PER_THREAD));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, CU_STREAM_PER_THREAD));
}

ASYNC_CASE(async_zero) {
    CUdeviceptr ptr = 4711;

    conf_code("zero", conf.drv->cuMemAllocAsync(&ptr, 0, a->one));
    conf_fact("is-null", ptr == 0);
    ptr = 4711;
    conf_code("zero-of-pool", conf.drv->cuMemAllocFromPoolAsync(&ptr, 0, a->pool, a->one));
    conf_fact("is-null", ptr == 0);
}

ASYNC_CASE(async_frees) {
    CUdeviceptr ptr;
    void *host = NULL;
    int local = 0;

    ptr = async_take(a, 8192, a->one);
    conf_code("interior", conf.drv->cuMemFreeAsync(ptr + 512, a->one));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_code("twice", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_code("foreign", conf.drv->cuMemFreeAsync((CUdeviceptr)(uintptr_t)&local, a->one));
    conf_code("low-address", conf.drv->cuMemFreeAsync(4096, a->one));
    if (conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, 0)) == 0) {
        conf_code("host", conf.drv->cuMemFreeAsync((CUdeviceptr)(uintptr_t)host, a->one));
        conf_need("free-host", conf.drv->cuMemFreeHost(host));
    }
}

ASYNC_CASE(async_free_null) {
    conf_code("null", conf.drv->cuMemFreeAsync(0, a->one));
}

/* cuMemFree of stream-ordered memory. */
ASYNC_CASE(async_free_plainly) {
    CUdeviceptr ptr;

    ptr = async_take(a, 8192, a->one);
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_code("interior", conf.drv->cuMemFree(ptr + 512));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("twice", conf.drv->cuMemFree(ptr));
}

/* cuMemFreeAsync of plain memory. There is no double free: the driver would hang. */
static void async_free_of_plain(void) {
    struct async a;
    CUdeviceptr plain = 0;

    if (async_make(&a) != 0 || conf_need("alloc", conf.drv->cuMemAlloc(&plain, 8192)) != 0)
        return;
    conf_code("free", conf.drv->cuMemFreeAsync(plain, a.one));
    async_drop(&a);
}

/* cuMemFree of stream-ordered memory does not wait for the streams. */
ASYNC_CASE(async_free_waits_not) {
    CUdeviceptr ptr;

    ptr = async_take(a, 8192, a->one);
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    if (conf_gate_close(&a->gate, a->two) == 0) {
        conf_code("free", conf.drv->cuMemFree(ptr));
        conf_fact("gate-holds", conf_gate_holds(&a->gate));
        conf_gate_open(&a->gate);
    }
}

ASYNC_CASE(async_use) {
    CUdeviceptr ptr, base = 0;
    uint32_t seen = 0;
    size_t bytes = 0;

    ptr = async_take(a, 1 << 20, a->one);
    conf_code("fill", conf.drv->cuMemsetD32Async(ptr, 4711, 16, a->one));
    conf_code("copy", conf.drv->cuMemcpyDtoHAsync(&seen, ptr, sizeof seen, a->one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_fact("read", seen);
    conf_code("range", conf.drv->cuMemGetAddressRange(&base, &bytes, ptr + 100));
    conf_fact("base", (long long)(base - ptr));
    conf_fact("bytes", (long long)bytes);
    conf_code("past-end", conf.drv->cuMemsetD8Async(ptr, 1, (size_t)1 << 40, a->one));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
}

/* Fill, alloc and free return at once, even while the stream is busy. */
ASYNC_CASE(async_is_late) {
    CUdeviceptr ptr;

    if (conf_gate_close(&a->gate, a->one) == 0) {
        ptr = async_take(a, ASYNC_BYTES, a->one);
        conf_code("fill", conf.drv->cuMemsetD8Async(ptr, 1, ASYNC_BYTES, a->one));
        conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
        conf_fact("gate-holds", conf_gate_holds(&a->gate));
        conf_fact("query-busy", conf.drv->cuStreamQuery(a->one) == CUDA_ERROR_NOT_READY);
        conf_gate_open(&a->gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(a->one));
    }
}

ASYNC_CASE(async_reuse_same_stream) {
    CUdeviceptr ptr, again;

    ptr = async_take(a, ASYNC_BYTES, a->one);
    if (conf_gate_close(&a->gate, a->one) == 0) {
        conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
        again = async_take(a, ASYNC_BYTES, a->one);
        conf_fact("same", again == ptr);
        conf_fact("gate-holds", conf_gate_holds(&a->gate));
        conf_gate_open(&a->gate);
        conf_need("free", conf.drv->cuMemFreeAsync(again, a->one));
    }
}

/* Freed on a stream that is blocked by a gate, then allocated on another stream. */
ASYNC_CASE(async_reuse_busy) {
    CUdeviceptr ptr, again;

    ptr = async_take(a, ASYNC_BYTES, a->one);
    if (conf_gate_close(&a->gate, a->one) == 0) {
        conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
        again = async_take(a, ASYNC_BYTES, a->two);
        conf_fact("same", again == ptr);
        conf_gate_open(&a->gate);
        conf_need("free", conf.drv->cuMemFreeAsync(again, a->two));
    }
}

/* As reuse-busy, with an event between the streams. One attribute allows reuse through events; the
 * others are off. */
static void async_reuse_event(void) {
    int follow;

    for (follow = 0; follow < 2; follow++) {
        struct async a;
        CUdeviceptr ptr, again;
        CUevent event = NULL;

        if (async_make(&a) != 0 || conf_need("event", conf.drv->cuEventCreate(&event, 0)) != 0)
            return;
        conf_need("set",
                  pool_set_flag(a.pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow));
        conf_need("set", pool_set_flag(a.pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0));
        conf_need("set",
                  pool_set_flag(a.pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0));
        ptr = async_take(&a, ASYNC_BYTES, a.one);
        if (conf_gate_close(&a.gate, a.one) == 0) {
            conf_need("free", conf.drv->cuMemFreeAsync(ptr, a.one));
            conf_need("record", conf.drv->cuEventRecord(event, a.one));
            conf_need("wait", conf.drv->cuStreamWaitEvent(a.two, event, 0));
            again = async_take(&a, ASYNC_BYTES, a.two);
            conf_fact(follow ? "followed" : "not-followed", again == ptr);
            conf_gate_open(&a.gate);
            conf_need("free", conf.drv->cuMemFreeAsync(again, a.two));
        }
        async_drop(&a);
        conf_need("event", conf.drv->cuEventDestroy(event));
    }
}

static void async_done_note(void *flag) {
    atomic_store((_Atomic int *)flag, 1);
}

/* Freed on a stream whose work is done, as a host function behind the free reports. Where the
 * attribute forbids reuse, an H200 reuses the block anyway. The soft driver does not, so that
 * programs do not come to rely on it. */
ASYNC_CASE(async_reuse_done) {
    CUdeviceptr ptr, again;
    _Atomic int done = 0;

    conf_need("set", pool_set_flag(a->pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0));
    ptr = async_take(a, ASYNC_BYTES, a->one);
    conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_need("note", conf.drv->cuLaunchHostFunc(a->one, async_done_note, (void *)&done));
    if (!conf_wait_flag(&done, CONF_GATE_SECONDS * 1000))
        conf_word("setup-note", "never-came");
    again = async_take(a, ASYNC_BYTES, a->two);
    conf_fact("opportunistic", again == ptr);
    conf_need("free", conf.drv->cuMemFreeAsync(again, a->two));
}

/* After a sync, whatever the attributes are. */
ASYNC_CASE(async_reuse_synced) {
    CUdeviceptr ptr, again;

    conf_need("set", pool_set_flag(a->pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 0));
    conf_need("set", pool_set_flag(a->pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 0));
    conf_need("set", pool_set_flag(a->pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0));
    conf_need("set", pool_set(a->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
    ptr = async_take(a, ASYNC_BYTES, a->one);
    conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    again = async_take(a, ASYNC_BYTES, a->two);
    conf_fact("same", again == ptr);
    conf_need("free", conf.drv->cuMemFreeAsync(again, a->two));
}

ASYNC_CASE(async_statistics) {
    CUdeviceptr ptr, other;

    ptr = async_take(a, 4 << 20, a->one);
    other = async_take(a, 1 << 20, a->one);
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_fact("used", (long long)pool_get(a->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    conf_fact("reserved-enough",
              pool_get(a->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= (5 << 20));
    conf_fact("reserved-chunks",
              pool_get(a->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) % conf.chunk_bytes == 0);
    conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_fact("used", (long long)pool_get(a->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    conf_fact("used-high", (long long)pool_get(a->pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    conf_code("reset", pool_set(a->pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
    conf_fact("used-high", (long long)pool_get(a->pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
    conf_need("free", conf.drv->cuMemFreeAsync(other, a->one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_fact("used", (long long)pool_get(a->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    conf_fact("reserved", (long long)pool_get(a->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

/* What a sync of a stream, an event or a context releases, and what the threshold keeps. */
static void async_release(void) {
    struct async a;
    CUevent event = NULL;
    int way;

    if (async_make(&a) != 0 || conf_need("event", conf.drv->cuEventCreate(&event, 0)) != 0)
        return;
    for (way = 0; way < 3; way++) {
        CUdeviceptr ptr = async_take(&a, ASYNC_BYTES, a.one);

        conf_need("free", conf.drv->cuMemFreeAsync(ptr, a.one));
        conf_need("record", conf.drv->cuEventRecord(event, a.one));
        conf_need("sync", way == 0   ? conf.drv->cuStreamSynchronize(a.one)
                          : way == 1 ? conf.drv->cuEventSynchronize(event)
                                     : conf.drv->cuCtxSynchronize());
        conf_fact("kept", (long long)pool_get(a.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    }
    conf_need("set", pool_set(a.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
    conf_need("free", conf.drv->cuMemFreeAsync(async_take(&a, ASYNC_BYTES, a.one), a.one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a.one));
    conf_fact("threshold-keeps",
              pool_get(a.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= ASYNC_BYTES);
    conf_code("trim", conf.drv->cuMemPoolTrimTo(a.pool, 0));
    conf_fact("kept", (long long)pool_get(a.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    conf_code("trim-null", conf.drv->cuMemPoolTrimTo(NULL, 0));
    conf_need("event", conf.drv->cuEventDestroy(event));
    async_drop(&a);
}

ASYNC_CASE(async_info) {
    size_t before = 0, during = 0, after = 0, total = 0, most = ASYNC_BYTES / 10 * 9;
    CUdeviceptr ptr;

    conf_need("info", conf.drv->cuMemGetInfo(&before, &total));
    ptr = async_take(a, ASYNC_BYTES, a->one);
    conf_need("info", conf.drv->cuMemGetInfo(&during, &total));
    conf_fact("counted", before >= during + most);
    conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_need("info", conf.drv->cuMemGetInfo(&after, &total));
    conf_fact("given-back", after >= during + most);
}

/* Leaves the pool with `bytes` of idle memory. */
static void async_keep(struct async *a, size_t bytes) {
    conf_need("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFreeAsync(async_take(a, bytes, a->one), a->one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_fact("kept", pool_get(a->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= bytes);
}

/* Idle memory of a pool serves other pools, plain allocations and chunks. */
static void async_kept_for_all(void) {
    size_t most, before = 0, total = 0;
    struct async a, other;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr ptr = 0;

    if (async_make(&a) != 0 || async_make(&other) != 0)
        return;
    conf_need("set", pool_set(a.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
    conf_need("info", conf.drv->cuMemGetInfo(&before, &total));
    most = before / 3 * 2 / conf.chunk_bytes * conf.chunk_bytes;
    async_keep(&a, most);
    if (conf_code("plain", conf.drv->cuMemAlloc(&ptr, most)) == CUDA_SUCCESS)
        conf_need("free", conf.drv->cuMemFree(ptr));
    async_keep(&a, most);
    if (conf_code("chunk", conf.drv->cuMemCreate(&handle, most, &prop, 0)) == CUDA_SUCCESS)
        conf_need("release", conf.drv->cuMemRelease(handle));
    async_keep(&a, most);
    if (conf_code("pool", conf.drv->cuMemAllocFromPoolAsync(&ptr, most, other.pool, other.one)) ==
        CUDA_SUCCESS)
        conf_need("free", conf.drv->cuMemFreeAsync(ptr, other.one));
    async_drop(&other);
    async_drop(&a);
}

/* The handle of the pool is destroyed; its blocks stay valid. */
static void async_destroyed_pool(void) {
    struct async a;
    CUdeviceptr ptr, other = 0;

    if (async_make(&a) != 0)
        return;
    ptr = async_take(&a, 1 << 20, a.one);
    conf_code("destroy", conf.drv->cuMemPoolDestroy(a.pool));
    conf_code("fill", conf.drv->cuMemsetD32Async(ptr, 4711, 16, a.one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a.one));
    conf_fact("read", conf_peek(ptr));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a.one));
    conf_need("sync", conf.drv->cuStreamSynchronize(a.one));
    conf_code("alloc-after", conf.drv->cuMemAllocFromPoolAsync(&other, 4096, a.pool, a.one));
    conf_need("destroy", conf.drv->cuStreamDestroy(a.one));
    conf_need("destroy", conf.drv->cuStreamDestroy(a.two));
}

static void async_maximum(void) {
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL;
    CUdeviceptr ptr = 0, other = 0;

    props.maxSize = ASYNC_BYTES;
    if (conf_need("create", conf.drv->cuMemPoolCreate(&pool, &props)) != 0)
        return;
    conf_code("within", conf.drv->cuMemAllocFromPoolAsync(&ptr, ASYNC_BYTES, pool, NULL));
    conf_code("beyond", conf.drv->cuMemAllocFromPoolAsync(&other, ASYNC_BYTES, pool, NULL));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, NULL));
    conf_code("again", conf.drv->cuMemAllocFromPoolAsync(&ptr, ASYNC_BYTES, pool, NULL));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, NULL));
    conf_need("sync", conf.drv->cuCtxSynchronize());
    conf_need("destroy", conf.drv->cuMemPoolDestroy(pool));
}

ASYNC_CASE(async_pointer) {
    CUmemoryPool pool = NULL;
    CUcontext ctx = conf.ctx;
    CUdeviceptr ptr, start = 0;
    CUresult code;
    size_t bytes = 0;
    int number = -7;

    ptr = async_take(a, 1 << 20, a->one);
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_code("pool",
              conf.drv->cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr));
    conf_fact("is-ours", pool == a->pool);
    conf_code("context", conf.drv->cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, ptr));
    conf_fact("is-null", ctx == NULL);
    code = conf.drv->cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr);
    conf_value("type", code, number);
    code = conf.drv->cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr);
    conf_value("ordinal", code, number);
    code =
        conf.drv->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr + 100);
    conf_value("start", code, (long long)(start - ptr));
    code = conf.drv->cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr);
    conf_value("size", code, (long long)bytes);
    conf_code("host-pointer",
              conf.drv->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_HOST_POINTER, ptr));
    conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
}

/* Legacy IPC and sync-memops do not support this memory. */
ASYNC_CASE(async_pointer_older) {
    CUipcMemHandle handle;
    CUdeviceptr ptr;
    CUresult code;
    unsigned int flag = 7;
    int one = 1;

    ptr = async_take(a, 1 << 20, a->one);
    conf_need("sync", conf.drv->cuStreamSynchronize(a->one));
    conf_code("ipc", conf.drv->cuIpcGetMemHandle(&handle, ptr));
    code = conf.drv->cuPointerGetAttribute(&flag, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                           ptr);
    conf_value("ipc-capable", code, flag);
    conf_code("sync-memops",
              conf.drv->cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr));
    conf_need("free", conf.drv->cuMemFreeAsync(ptr, a->one));
}

/* Another stream is being captured: alloc and free still work. */
ASYNC_CASE(async_beside_capture) {
    CUgraph graph = NULL;
    CUdeviceptr ptr = 0;

    conf_need("begin", conf.drv->cuStreamBeginCapture(a->two, CU_STREAM_CAPTURE_MODE_RELAXED));
    conf_code("alloc", conf.drv->cuMemAllocFromPoolAsync(&ptr, 4096, a->pool, a->one));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_code("end", conf.drv->cuStreamEndCapture(a->two, &graph));
    if (graph != NULL)
        conf_need("graph", conf.drv->cuGraphDestroy(graph));
}

/* In a capture the allocation belongs to the graph. */
ASYNC_CASE(async_capture) {
    CUgraph graph = NULL;
    CUdeviceptr ptr = 0;

    conf_need("begin", conf.drv->cuStreamBeginCapture(a->one, CU_STREAM_CAPTURE_MODE_RELAXED));
    conf_code("alloc", conf.drv->cuMemAllocFromPoolAsync(&ptr, 4096, a->pool, a->one));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_code("end", conf.drv->cuStreamEndCapture(a->one, &graph));
    if (graph != NULL)
        conf_need("graph", conf.drv->cuGraphDestroy(graph));
}

/* A graph that allocates, uses and frees memory, launched twice. */
ASYNC_CASE(async_graph) {
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    CUdeviceptr ptr = 0;
    uint32_t *host = NULL;
    int i;

    if (conf_need("host", conf.drv->cuMemHostAlloc((void **)&host, 4096, 0)) != 0)
        return;
    conf_need("begin", conf.drv->cuStreamBeginCapture(a->one, CU_STREAM_CAPTURE_MODE_GLOBAL));
    conf_code("alloc", conf.drv->cuMemAllocAsync(&ptr, 4096, a->one));
    conf_fact("set", ptr != 0);
    conf_code("fill", conf.drv->cuMemsetD32Async(ptr, 77, 1024, a->one));
    conf_code("copy", conf.drv->cuMemcpyDtoHAsync(host, ptr, 4096, a->one));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_code("end", conf.drv->cuStreamEndCapture(a->one, &graph));
    conf_code("instantiate", conf.drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (i = 0; i < 2 && exec != NULL; i++) {
        host[1023] = 0;
        conf_code("launch", conf.drv->cuGraphLaunch(exec, a->one));
        conf_code("sync", conf.drv->cuStreamSynchronize(a->one));
        conf_fact("read", host[1023]);
    }
    if (exec != NULL)
        conf_need("exec", conf.drv->cuGraphExecDestroy(exec));
    if (graph != NULL)
        conf_need("graph", conf.drv->cuGraphDestroy(graph));
    conf_need("free-host", conf.drv->cuMemFreeHost(host));
}

/* Created streams need no current context; the default streams do. */
ASYNC_CASE(async_no_context) {
    CUcontext ctx = NULL;
    CUdeviceptr ptr = 0;

    conf_need("pop", conf.drv->cuCtxPopCurrent(&ctx));
    conf_code("null-stream", conf.drv->cuMemAllocFromPoolAsync(&ptr, 4096, a->pool, NULL));
    conf_code("stream", conf.drv->cuMemAllocFromPoolAsync(&ptr, 4096, a->pool, a->one));
    conf_code("free", conf.drv->cuMemFreeAsync(ptr, a->one));
    conf_need("push", conf.drv->cuCtxPushCurrent(ctx));
}

static const struct conf_case async_cases[] = {
    {"sizes", async_sizes, 0},
    {"zero", async_zero, 0},
    {"frees", async_frees, CONF_ALONE},
    {"free-null", async_free_null, CONF_ALONE},
    {"free-plainly", async_free_plainly, CONF_ALONE},
    {"free-of-plain", async_free_of_plain, CONF_ALONE},
    {"free-waits-not", async_free_waits_not, 0},
    {"use", async_use, 0},
    {"is-late", async_is_late, 0},
    {"reuse-same-stream", async_reuse_same_stream, 0},
    {"reuse-busy", async_reuse_busy, 0},
    {"reuse-event", async_reuse_event, 0},
    {"reuse-done", async_reuse_done, 0},
    {"reuse-synced", async_reuse_synced, 0},
    {"statistics", async_statistics, 0},
    {"release", async_release, 0},
    {"info", async_info, 0},
    {"destroyed-pool", async_destroyed_pool, CONF_ALONE},
    {"maximum", async_maximum, 0},
    {"pointer", async_pointer, 0},
    {"pointer-older", async_pointer_older, 0},
    {"kept-for-all", async_kept_for_all, 0},
    {"beside-capture", async_beside_capture, 0},
    {"capture", async_capture, 0},
    {"graph", async_graph, 0},
    {"no-context", async_no_context, 0},
};
CONF_GROUP(async, 0);

/* Pools without host memory: each host allocation of the driver fails in turn. The driver call
 * reports it and changes nothing, later calls work, and nothing leaks.
 *
 * This program replaces malloc and free to count and fail allocations. Sanitizers replace them too,
 * so builds with a sanitizer test nothing here. */
#include "soft_fixture.h"

#if defined(ACRE_SANITIZE_asan) || defined(ACRE_SANITIZE_tsan) || !defined(__GLIBC__)

int main(void) {
    puts("skipped: a sanitizer has its own malloc");
    return 77;
}

#else

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void __libc_free(void *p);

/* Allocations of this thread until one fails; negative: none fails. */
static _Thread_local long until = -1;
static _Thread_local int is_refused;
static _Atomic long live;

static int is_enough(void) {
    if (until < 0 || until-- > 0)
        return 1;
    is_refused = 1;
    return 0;
}

static void *counted(void *p) {
    if (p)
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

void *malloc(size_t bytes) {
    return is_enough() ? counted(__libc_malloc(bytes)) : NULL;
}

void *calloc(size_t count, size_t bytes) {
    return is_enough() ? counted(__libc_calloc(count, bytes)) : NULL;
}

void *realloc(void *p, size_t bytes) {
    if (!is_enough())
        return NULL;
    void *moved = __libc_realloc(p, bytes);
    return p ? moved : counted(moved);
}

void free(void *p) {
    if (p)
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    __libc_free(p);
}

/* ---- scripts of driver calls ---- */

enum { BLOCKS = 4 };

struct script {
    CUstream one, two;
    CUevent event;
    CUmemoryPool pool, shared, imported;
    CUdeviceptr block[BLOCKS], plain, sent, got;
    int fd;
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_)                                                                               \
            return result_;                                                                        \
    } while (0)

static CUresult give(CUdeviceptr *at, CUstream stream) {
    TRY(drv->cuMemFreeAsync(*at, stream));
    *at = 0;
    return CUDA_SUCCESS;
}

static CUresult script_pool(struct script *s) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    TRY(drv->cuMemPoolCreate(&s->pool, &props));
    TRY(drv->cuDeviceSetMemPool(0, s->pool));
    for (int i = 0; i < BLOCKS; i++)
        TRY(drv->cuMemAllocAsync(&s->block[i], (size_t)(i + 1) * MIB, s->one));
    TRY(give(&s->block[1], s->one));
    TRY(give(&s->block[2], s->one));
    TRY(drv->cuEventRecord(s->event, s->one));
    TRY(drv->cuStreamWaitEvent(s->two, s->event, 0));
    TRY(drv->cuMemAllocAsync(&s->block[1], 2 * MIB, s->two));
    TRY(give(&s->block[1], s->two));
    TRY(drv->cuMemAlloc(&s->plain, 4096));
    return give(&s->plain, s->two);
}

static CUresult script_share(struct script *s) {
    const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = type,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemPoolPtrExportData data;
    TRY(drv->cuMemPoolCreate(&s->shared, &props));
    TRY(drv->cuMemAllocFromPoolAsync(&s->sent, MIB, s->shared, s->one));
    TRY(drv->cuMemPoolExportToShareableHandle(&s->fd, s->shared, type, 0));
    TRY(drv->cuMemPoolExportPointer(&data, s->sent));
    TRY(drv->cuMemPoolImportFromShareableHandle(&s->imported, (void *)(intptr_t)s->fd, type, 0));
    return drv->cuMemPoolImportPointer(&s->got, s->imported, &data);
}

/* Frees everything, wherever the script stopped. */
static void script_end(struct script *s) {
    assert_ok(drv->cuCtxSynchronize()); /* so that any stream may free any block */
    if (s->got)
        assert_ok(give(&s->got, s->one));
    if (s->sent)
        assert_ok(give(&s->sent, s->one));
    if (s->plain)
        assert_ok(give(&s->plain, s->one));
    for (int i = 0; i < BLOCKS; i++)
        if (s->block[i])
            assert_ok(give(&s->block[i], s->one));
    assert_ok(drv->cuCtxSynchronize());
    if (s->imported)
        assert_ok(drv->cuMemPoolDestroy(s->imported));
    if (s->shared)
        assert_ok(drv->cuMemPoolDestroy(s->shared));
    if (s->pool)
        assert_ok(drv->cuMemPoolDestroy(s->pool));
    if (s->fd >= 0)
        close(s->fd);
    assert_int_equal(soft_used_bytes(0), 0);
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

static void begin(void) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.check = config.seeded = 1;
    soft_begin_with(&config);
}

/* Runs the script and fails the allocation with that number. Returns 0 if there were fewer
 * allocations. */
static int script_run(CUresult (*run)(struct script *), long refused) {
    struct script s = {.fd = -1};
    void *state = NULL;
    begin();
    assert_ok(drv->cuStreamCreate(&s.one, CU_STREAM_NON_BLOCKING));
    assert_ok(drv->cuStreamCreate(&s.two, CU_STREAM_NON_BLOCKING));
    assert_ok(drv->cuEventCreate(&s.event, CU_EVENT_DISABLE_TIMING));
    is_refused = 0;
    until = refused;
    CUresult result = run(&s);
    until = -1;
    int was_refused = is_refused;
    /* A few allocations are optional: if one of them fails, the call succeeds in another way. */
    if (!was_refused)
        assert_ok(result);
    else if (result)
        assert_int_equal(result, CUDA_ERROR_OUT_OF_MEMORY);
    script_end(&s);
    soft_teardown(&state);
    return was_refused;
}

static void each_allocation_refused(CUresult (*run)(struct script *)) {
    (void)script_run(run, -1); /* allocations that are made once and kept */
    long refused = 0, before = atomic_load(&live);
    while (script_run(run, refused)) {
        if (atomic_load(&live) != before)
            fail_msg("allocation %ld failed: %ld allocations leak", refused,
                     atomic_load(&live) - before);
        refused++;
    }
    assert_true(refused > 10);
    assert_int_equal(atomic_load(&live), before);
}

TEST(pool_without_host_memory_changes_nothing) {
    each_allocation_refused(script_pool);
}

TEST(pool_without_host_memory_is_not_shared) {
    each_allocation_refused(script_share);
}

int main(void) {
    return tests_run("soft_pool_short");
}

#endif

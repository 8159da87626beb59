/* A program for `acre run` that uses device memory all the time, for tests/cli/test_cli_suspend.sh.
 * It is linked with the driver, like a program that cannot be changed.
 *
 * Four threads fill, copy, replay a graph, allocate and free, and check all contents. The main
 * thread obeys the lines on standard input, without a call that may wait, and answers each with
 * one line:
 *
 *   rounds   the rounds of all threads so far
 *   move     waits until every thread has completed two more
 *   free     frees a block
 *   info     asks for the free memory
 *   chunk    creates 8 MiB with cuMemCreate, maps them and releases the handle; again: unmaps them
 *   capture  begins a capture; again: ends it
 *   block    a thread begins a copy that does not return; again: it returns
 *   reset    destroys the context, and with it all memory: the threads' next calls fail
 *   each     threads begin one call each that needs the memory; again: how many have returned
 *   around   finds a function of the driver without the gate
 *   stop     ends the threads, checks a block that was not written since, and frees everything
 *   exit     leaves at once
 *
 * Answers: a number, "ok", or what has failed. */
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

#include "elf_find.h"

enum { THREADS = 4, WORDS = 3 << 18, MIB = 1 << 20, KEPT_MIB = 24 };

static CUcontext context;
static _Atomic int is_ending;
static char *_Atomic failure; /* what has failed first */

#define NEED(call)                                                                                 \
    do {                                                                                           \
        CUresult needed = (call);                                                                  \
        if (needed)                                                                                \
            return fail(#call, (int)needed);                                                       \
    } while (0)

static int fail(const char *what, int code) {
    char *text = NULL, *none = NULL;
    if (asprintf(&text, "%s: %d", what, code) < 0 ||
        !atomic_compare_exchange_strong(&failure, &none, text))
        free(text);
    return 0;
}

/* ---- the threads ---- */

struct worker {
    unsigned number;
    CUstream stream;
    CUdeviceptr filled, copied, replayed;
    CUgraphExec exec;
    uint32_t *host;
    pthread_t thread;
    _Atomic uint64_t rounds;
};

static int is_all(const uint32_t *words, size_t count, uint32_t value) {
    for (size_t i = 0; i < count; i++) {
        if (words[i] != value)
            return fail("contents", (int)i);
    }
    return 1;
}

static int worker_begin(struct worker *worker) {
    CUgraph graph;
    worker->host = malloc(WORDS * sizeof(uint32_t));
    NEED(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&worker->filled, WORDS * sizeof(uint32_t)));
    NEED(cuMemAlloc(&worker->copied, WORDS * sizeof(uint32_t)));
    NEED(cuMemAlloc(&worker->replayed, 4096));
    NEED(cuStreamBeginCapture(worker->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuMemsetD32Async(worker->replayed, worker->number, 1024, worker->stream));
    NEED(cuStreamEndCapture(worker->stream, &graph));
    NEED(cuGraphInstantiate(&worker->exec, graph, 0));
    return worker->host != NULL;
}

static int worker_round(struct worker *worker, uint32_t value) {
    size_t bytes = WORDS * sizeof(uint32_t);
    NEED(cuMemsetD32Async(worker->filled, value, WORDS, worker->stream));
    NEED(cuMemcpyDtoDAsync(worker->copied, worker->filled, bytes, worker->stream));
    NEED(cuMemcpyDtoHAsync(worker->host, worker->copied, bytes, worker->stream));
    NEED(cuStreamSynchronize(worker->stream));
    if (!is_all(worker->host, WORDS, value))
        return 0;
    NEED(cuMemsetD8Async(worker->replayed, 0xff, 4096, worker->stream));
    NEED(cuGraphLaunch(worker->exec, worker->stream));
    NEED(cuMemcpyDtoHAsync(worker->host, worker->replayed, 4096, worker->stream));
    NEED(cuStreamSynchronize(worker->stream));
    return is_all(worker->host, 1024, worker->number);
}

/* Allocates and frees, which the other threads' memory must not notice. */
static int worker_alloc(struct worker *worker, uint32_t value) {
    CUdeviceptr block;
    CUmemorytype type = 0;
    NEED(cuMemAlloc(&block, 5 * MIB));
    NEED(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
    NEED(cuMemsetD32(block, value, WORDS));
    NEED(cuMemcpyDtoH(worker->host, block, WORDS * sizeof(uint32_t)));
    NEED(cuMemFree(block));
    return type == CU_MEMORYTYPE_DEVICE ? is_all(worker->host, WORDS, value)
                                        : fail("type", (int)type);
}

static void *worker_run(void *user) {
    struct worker *worker = user;
    int is_ok = !cuCtxSetCurrent(context) && worker_begin(worker);
    for (uint32_t i = 0; is_ok && !atomic_load(&is_ending); i++) {
        uint32_t value = worker->number << 24 | i;
        is_ok = worker_round(worker, value) && (i % 8 || worker_alloc(worker, ~value));
        atomic_fetch_add(&worker->rounds, 1);
    }
    return NULL;
}

/* ---- commands ---- */

static CUdeviceptr kept, spare;
static struct worker workers[THREADS];

static uint64_t all_rounds(void) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < THREADS; i++)
        sum += atomic_load(&workers[i].rounds);
    return sum;
}

/* Of two rounds, the second begins after this call. */
static int do_move(void) {
    uint64_t before[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        before[i] = atomic_load(&workers[i].rounds);
    for (unsigned i = 0; i < THREADS && !failure; i++) {
        while (atomic_load(&workers[i].rounds) < before[i] + 2 && !failure)
            usleep(500);
    }
    return !failure;
}

static int do_free(void) {
    NEED(cuMemFree(spare));
    return 1;
}

static int do_info(void) {
    size_t free_bytes, total;
    NEED(cuMemGetInfo(&free_bytes, &total));
    return 1;
}

static int do_chunk(void) {
    static CUdeviceptr at;
    static int is_mapped;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    is_mapped = !is_mapped;
    if (!is_mapped) {
        NEED(cuMemUnmap(at, 8 * MIB));
        NEED(cuMemAddressFree(at, 8 * MIB));
        return 1;
    }
    NEED(cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0));
    NEED(cuMemCreate(&handle, 8 * MIB, &prop, 0));
    NEED(cuMemMap(at, 8 * MIB, 0, handle, 0));
    NEED(cuMemRelease(handle));
    return 1;
}

static int do_capture(void) {
    static CUstream stream;
    CUgraph graph;
    if (!stream) {
        NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        return 1;
    }
    NEED(cuStreamEndCapture(stream, &graph));
    NEED(cuStreamDestroy(stream));
    stream = NULL;
    return 1;
}

static _Atomic int is_blocked;
static pthread_t blocker;

static void CUDA_CB block_wait(void *unused) {
    (void)unused;
    while (atomic_load(&is_blocked))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *block_run(void *unused) {
    uint32_t word;
    if (cuCtxSetCurrent(context) || cuLaunchHostFunc(CU_STREAM_LEGACY, block_wait, NULL) ||
        (atomic_store(&is_blocked, 2), cuMemcpyDtoH(&word, kept, sizeof word)))
        (void)fail("block", 0);
    return unused;
}

static int do_block(void) {
    if (atomic_load(&is_blocked)) {
        atomic_store(&is_blocked, 0);
        return !pthread_join(blocker, NULL);
    }
    atomic_store(&is_blocked, 1);
    if (pthread_create(&blocker, NULL, block_run, NULL))
        return fail("pthread_create", 0);
    while (atomic_load(&is_blocked) == 1)
        sched_yield();
    return 1;
}

/* ---- one call each ---- */

static CUdeviceptr small; /* what they use */
static CUgraphExec small_exec;

static int each_alloc(void) {
    CUdeviceptr block;
    NEED(cuMemAlloc(&block, MIB));
    return 1;
}

static int each_pitched(void) {
    CUdeviceptr block;
    size_t pitch;
    NEED(cuMemAllocPitch(&block, &pitch, 1000, 100, 4));
    return 1;
}

static int each_graph(void) {
    NEED(cuGraphLaunch(small_exec, CU_STREAM_PER_THREAD));
    return 1;
}

static int each_attribute(void) {
    CUmemorytype type;
    NEED(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, small));
    return 1;
}

static int each_range(void) {
    CUdeviceptr base;
    size_t bytes;
    NEED(cuMemGetAddressRange(&base, &bytes, small));
    return 1;
}

static int each_copy(void) {
    uint32_t word;
    NEED(cuMemcpyDtoH(&word, small, sizeof word));
    return 1;
}

static int each_async(void) {
    NEED(cuMemcpyDtoDAsync(small, small + 8, 8, CU_STREAM_PER_THREAD));
    return 1;
}

static int each_memset(void) {
    NEED(cuMemsetD32(small, 1, 1));
    return 1;
}

static int each_capture(void) {
    CUstream stream;
    CUgraph graph;
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuStreamEndCapture(stream, &graph));
    return 1;
}

static int each_managed(void) {
    CUdeviceptr block;
    NEED(cuMemAllocManaged(&block, MIB, CU_MEM_ATTACH_GLOBAL));
    return 1;
}

static int each_ordered(void) {
    CUdeviceptr block;
    NEED(cuMemAllocAsync(&block, MIB, CU_STREAM_PER_THREAD));
    return 1;
}

static int each_chunk(void) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    NEED(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    return 1;
}

static int (*const each_calls[])(void) = {each_alloc,   each_pitched, each_graph,   each_attribute,
                                          each_range,   each_copy,    each_async,   each_memset,
                                          each_capture, each_managed, each_ordered, each_chunk};
enum { EACH = sizeof each_calls / sizeof each_calls[0] };
static _Atomic unsigned each_begun, each_done;

static void *each_run(void *call) {
    int (*const *run)(void) = call;
    if (cuCtxSetCurrent(context))
        (void)fail("context", 0);
    atomic_fetch_add(&each_begun, 1);
    (void)(*run)();
    atomic_fetch_add(&each_done, 1);
    return NULL;
}

static int each_start(void) {
    for (unsigned i = 0; i < EACH; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, each_run, (void *)(uintptr_t)&each_calls[i]))
            return fail("pthread_create", 0);
        pthread_detach(thread);
    }
    while (atomic_load(&each_begun) < EACH)
        sched_yield();
    return 1;
}

/* Returns how many have returned, or "all". */
static const char *each_ask(void) {
    static char text[16];
    snprintf(text, sizeof text, "%u", atomic_load(&each_done));
    return atomic_load(&each_done) == EACH ? "all" : text;
}

static int each_prepare(void) {
    CUstream stream;
    CUgraph graph;
    NEED(cuMemAlloc(&small, 4096));
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuMemsetD32Async(small, 7, 16, stream));
    NEED(cuStreamEndCapture(stream, &graph));
    NEED(cuGraphInstantiate(&small_exec, graph, 0));
    return 1;
}

static int do_reset(void) {
    NEED(cuDevicePrimaryCtxReset(0));
    return 1;
}

static void *around; /* where a library would keep it */

static int around_look(struct dl_phdr_info *info, size_t bytes, void *user) {
    struct link_map map = {.l_addr = info->dlpi_addr};
    (void)bytes, (void)user;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    }
    if (map.l_ld && acre__elf_has_soname(&map, "libcuda.so.1"))
        around = acre__elf_find(&map, "cuMemcpyAsync");
    return around != NULL;
}

static int do_around(void) {
    return dl_iterate_phdr(around_look, NULL) ? 1 : fail("no driver", 0);
}

static int do_stop(void) {
    static uint32_t host[MIB / 4];
    atomic_store(&is_ending, 1);
    for (unsigned i = 0; i < THREADS; i++) {
        struct worker *worker = &workers[i];
        pthread_join(worker->thread, NULL);
        NEED(cuMemFree(worker->filled));
        NEED(cuMemFree(worker->copied));
        NEED(cuMemFree(worker->replayed));
    }
    for (uint32_t i = 0; i < KEPT_MIB; i++) {
        NEED(cuMemcpyDtoH(host, kept + (size_t)i * MIB, MIB));
        if (!is_all(host, MIB / 4, i ^ 0x5eedu))
            return 0;
    }
    NEED(cuMemFree(kept));
    return 1;
}

static int obey(const char *line) {
    static const struct {
        const char *word;
        int (*run)(void);
    } rows[] = {{"move", do_move},       {"free", do_free},   {"info", do_info},
                {"capture", do_capture}, {"block", do_block}, {"around", do_around},
                {"stop", do_stop},       {"reset", do_reset}, {"each", each_start},
                {"chunk", do_chunk}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(line, rows[i].word) == 0)
            return rows[i].run();
    }
    return fail("command", 0);
}

static int begin(void) {
    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&context, 0));
    NEED(cuCtxSetCurrent(context));
    NEED(cuMemAlloc(&kept, (size_t)KEPT_MIB * MIB));
    NEED(cuMemAlloc(&spare, 8 * MIB));
    if (!each_prepare())
        return 0;
    for (uint32_t i = 0; i < KEPT_MIB; i++)
        NEED(cuMemsetD32(kept + (size_t)i * MIB, i ^ 0x5eedu, MIB / 4));
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i + 1;
        if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]))
            return fail("pthread_create", 0);
    }
    return 1;
}

int main(void) {
    char line[64];
    int is_ok = begin();
    puts(is_ok ? "ok" : failure);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "exit") == 0)
            exit(failure ? 1 : 0);
        int is_asked = strcmp(line, "rounds") == 0 || (strcmp(line, "each") == 0 && each_begun);
        is_ok = is_asked || obey(line);
        if (!is_ok || failure)
            puts(failure ? failure : "failed");
        else if (strcmp(line, "rounds") == 0)
            printf("%llu\n", (unsigned long long)all_rounds());
        else if (is_asked)
            puts(each_ask());
        else
            puts("ok");
        fflush(stdout);
    }
    return failure != NULL;
}

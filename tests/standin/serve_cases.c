/* A program for `acre run` that checks what it is served, for tests/cli/test_cli_serve.sh. It is
 * linked with the driver, like a program that cannot be changed.
 *
 *   serve_cases CASE...        prints "CASE: ok" for each
 *   serve_cases ipc-open HEX   opens the handle of another process
 *
 * Exit status 1 if a case failed. */
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

/* Not in acre's own cuda.h. */
typedef struct {
    char reserved[64];
} CUipcMemHandle;
extern CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr);
extern CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
extern CUresult cuIpcCloseMemHandle(CUdeviceptr ptr);
enum { LAZY_PEERS = 1 };

#define NEED(call)                                                                                 \
    do {                                                                                           \
        CUresult needed = (call);                                                                  \
        if (needed) {                                                                              \
            printf("%s: %d\n", #call, (int)needed);                                                \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: not %s\n", __LINE__, #condition);                                     \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)

static const size_t MIB = (size_t)1 << 20;
static CUcontext context;

static int begin(void) {
    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&context, 0));
    NEED(cuCtxSetCurrent(context));
    return 1;
}

/* Ids of blocks from acre's pool begin at 2^40. */
static int is_served(CUdeviceptr block) {
    unsigned long long id = 0;
    return !cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, block) && id >> 40;
}

static int case_served(void) {
    CUdeviceptr block, matrix;
    size_t pitch;
    NEED(cuMemAlloc(&block, 1000));
    EXPECT(is_served(block) && is_served(block + 999) && !is_served(block + 1000));
    NEED(cuMemAllocPitch(&matrix, &pitch, 1000, 7, 4));
    EXPECT(pitch == 1024 && is_served(matrix + 7 * 1024 - 1));
    NEED(cuMemFree(block));
    EXPECT(!is_served(block));
    EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(matrix));
    return 1;
}

/* An own context keeps the driver's memory. */
static int case_own(void) {
    CUcontext own;
    CUdeviceptr block;
    NEED(cuCtxCreate(&own, NULL, 0, 0));
    NEED(cuMemAlloc(&block, MIB));
    EXPECT(!is_served(block));
    NEED(cuMemFree(block));
    NEED(cuCtxDestroy(own));
    NEED(cuCtxSetCurrent(context));
    return 1;
}

static int case_reset(void) {
    CUdeviceptr old, block;
    NEED(cuMemAlloc(&old, 3 * MIB));
    NEED(cuDevicePrimaryCtxReset(0));
    NEED(cuDevicePrimaryCtxRetain(&context, 0));
    NEED(cuCtxSetCurrent(context));
    EXPECT(!is_served(old));
    EXPECT(cuMemFree(old) == CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemAlloc(&block, 3 * MIB));
    EXPECT(is_served(block));
    NEED(cuMemFree(block));
    return 1;
}

/* What acre holds idle is free for every other call. */
static int case_idle(void) {
    size_t free_bytes, total;
    CUdeviceptr block;
    CUmemGenericAllocationHandle chunk;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    NEED(cuMemGetInfo(&free_bytes, &total));
    size_t most = free_bytes / 4 * 3 / (2 * MIB) * (2 * MIB);
    NEED(cuMemAlloc(&block, most));
    NEED(cuMemFree(block));
    NEED(cuMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes >= most);
    NEED(cuMemCreate(&chunk, most, &prop, 0));
    NEED(cuMemRelease(chunk));
    NEED(cuMemAlloc(&block, most));
    NEED(cuMemFree(block));
    return 1;
}

/* The driver lacks memory once (ACRE_FAULT). acre releases what it holds idle, and calls again. */
static int case_retry(void) {
    CUdeviceptr block;
    NEED(cuMemAlloc(&block, 64 * MIB));
    NEED(cuMemFree(block));
    NEED(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB));
    return 1;
}

/* Memsets return before they are done, unless some block has the attribute. */
static int case_memops(void) {
    CUdeviceptr block;
    unsigned int is_sync = 1;
    NEED(cuMemAlloc(&block, 64 * MIB));
    NEED(cuMemsetD8(block, 1, 64 * MIB));
    EXPECT(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
    NEED(cuPointerSetAttribute(&is_sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
    NEED(cuMemsetD8(block, 2, 64 * MIB));
    EXPECT(cuStreamQuery(NULL) == CUDA_SUCCESS);
    NEED(cuMemsetD2D32(block, 4096, 3, 1024, 1024));
    EXPECT(cuStreamQuery(NULL) == CUDA_SUCCESS);
    NEED(cuMemFree(block));
    NEED(cuMemAlloc(&block, 64 * MIB));
    NEED(cuMemsetD8(block, 1, 64 * MIB));
    EXPECT(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY);
    NEED(cuMemFree(block));
    return 1;
}

static int case_zero(void) {
    CUdeviceptr block;
    unsigned char bytes[4096];
    for (int i = 0; i < 8; i++) {
        NEED(cuMemAlloc(&block, sizeof bytes));
        NEED(cuMemcpyDtoH(bytes, block, sizeof bytes));
        for (size_t k = 0; k < sizeof bytes; k++)
            EXPECT(bytes[k] == 0);
        NEED(cuMemsetD8(block, 255, sizeof bytes));
        NEED(cuMemFree(block));
    }
    return 1;
}

/* ---- threads ---- */

enum { THREADS = 16, ROUNDS = 400, FEW_ROUNDS = 40, LIVE = 8 };

static int churn(uint32_t seed, int count) {
    CUdeviceptr live[LIVE] = {0};
    size_t sizes[LIVE] = {0};
    NEED(cuCtxSetCurrent(context));
    for (int i = 0; i < count + LIVE; i++) {
        int at = i % LIVE;
        if (live[at]) {
            unsigned char first = 0, last = 0;
            NEED(cuMemcpyDtoH(&first, live[at], 1));
            NEED(cuMemcpyDtoH(&last, live[at] + sizes[at] - 1, 1));
            EXPECT(first == (unsigned char)seed && last == (unsigned char)seed);
            NEED(cuMemFree(live[at]));
            live[at] = 0;
        }
        if (i >= count)
            continue;
        sizes[at] = 1 + (seed * 7919u + (uint32_t)i * 104729u) % (256u << 10);
        NEED(cuMemAlloc(&live[at], sizes[at]));
        NEED(cuMemsetD8(live[at], (unsigned char)seed, sizes[at]));
        NEED(cuCtxSynchronize());
    }
    return 1;
}

static void *churn_thread(void *seed) {
    return churn((uint32_t)(uintptr_t)seed, ROUNDS) ? NULL : seed;
}

static void *churn_briefly(void *seed) {
    return churn((uint32_t)(uintptr_t)seed, FEW_ROUNDS) ? NULL : seed;
}

static int churn_in_threads(void *(*run)(void *)) {
    pthread_t threads[THREADS];
    int failed = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed += result != NULL;
    }
    EXPECT(failed == 0);
    return 1;
}

static int case_threads(void) {
    return churn_in_threads(churn_thread);
}

static int case_threads_brief(void) {
    return churn_in_threads(churn_briefly);
}

/* Blocks outlive the thread that allocated them, and its cache. */
static void *alloc_thread(void *block_out) {
    int is_ok = !cuCtxSetCurrent(context) && !cuMemAlloc(block_out, 3 * MIB);
    return is_ok ? NULL : block_out;
}

static int case_thread_exit(void) {
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        CUdeviceptr block;
        void *failed;
        EXPECT(pthread_create(&thread, NULL, alloc_thread, &block) == 0);
        pthread_join(thread, &failed);
        EXPECT(!failed && is_served(block));
        NEED(cuMemFree(block));
    }
    return 1;
}

static _Atomic int churn_rounds;

/* A program may end inside a callback of the driver, while other threads allocate. */
static void end_here(void *nothing) {
    (void)nothing;
    printf("callback-exit: ok\n");
    exit(0);
}

static void *churn_for_ever(void *nothing) {
    while (!cuCtxSetCurrent(context)) {
        CUdeviceptr block;
        if (!cuMemAlloc(&block, 70000))
            (void)cuMemFree(block);
        atomic_fetch_add(&churn_rounds, 1);
    }
    return nothing;
}

static int case_callback_exit(void) {
    pthread_t thread;
    CUstream stream;
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT(pthread_create(&thread, NULL, churn_for_ever, NULL) == 0);
    while (atomic_load(&churn_rounds) < 10)
        usleep(100);
    NEED(cuLaunchHostFunc(stream, end_here, NULL));
    sleep(200); /* end_here ends it */
    return 0;
}

/* A child may start CUDA for itself only if its parent has not. */
static int case_fork(void) {
    CUdeviceptr block;
    NEED(cuMemAlloc(&block, MIB));
    pid_t child = fork();
    if (child == 0) {
        CUdeviceptr other;
        _exit(cuMemAlloc(&other, MIB) ? 0 : 1);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    EXPECT(is_served(block));
    NEED(cuMemFree(block));
    return 1;
}

/* ---- captures ---- */

/* Memory that is freed during a capture is not used again before it has ended. */
static int case_capture(void) {
    CUstream stream;
    CUgraph graph;
    CUdeviceptr block, other;
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&block, MIB));
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuMemsetD8Async(block, 1, MIB, stream));
    NEED(cuMemFree(block));
    NEED(cuMemAlloc(&other, MIB));
    EXPECT(is_served(other) && other != block);
    NEED(cuStreamEndCapture(stream, &graph));
    NEED(cuGraphDestroy(graph));
    NEED(cuMemFree(other)); /* now both are free */
    NEED(cuMemAlloc(&block, MIB));
    NEED(cuMemAlloc(&other, MIB));
    NEED(cuMemFree(block));
    NEED(cuMemFree(other));
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT(cuMemAlloc(&block, MIB) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuMemAlloc(&block, MIB));
    NEED(cuMemFree(block));
    NEED(cuStreamDestroy(stream));
    return 1;
}

/* Allocates and frees eight times what the device has: 1 if all of it was free again each time. */
static int all_comes_back(void) {
    size_t free_bytes, total;
    NEED(cuMemGetInfo(&free_bytes, &total));
    for (int i = 0; i < 64; i++) {
        CUdeviceptr block;
        NEED(cuMemAlloc(&block, total / 8));
        NEED(cuMemFree(block));
    }
    return 1;
}

/* Captures that do not begin, or end with their stream or context, do not count as going on. */
static int case_captures_end(void) {
    CUstream stream;
    CUcontext own;
    CUgraph graph;
    CUdeviceptr block;
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS);
    NEED(cuStreamEndCapture(stream, &graph));
    NEED(cuGraphDestroy(graph));
    EXPECT(all_comes_back());
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuStreamDestroy(stream));
    EXPECT(all_comes_back());
    NEED(cuCtxCreate(&own, NULL, 0, 0));
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuCtxDestroy(own));
    NEED(cuCtxSetCurrent(context));
    EXPECT(all_comes_back());
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&block, MIB));
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuMemFree(block));
    NEED(cuDevicePrimaryCtxReset(0));
    NEED(cuDevicePrimaryCtxRetain(&context, 0));
    NEED(cuCtxSetCurrent(context));
    return all_comes_back();
}

/* ---- resets beside other threads ---- */

static _Atomic int resets_are_over;

/* Calls may fail: the context comes and goes. */
static void *use_anyway(void *nothing) {
    while (!atomic_load(&resets_are_over)) {
        CUdeviceptr block;
        size_t free_bytes;
        (void)cuCtxSetCurrent(context);
        if (!cuMemAlloc(&block, 100000))
            (void)cuMemFree(block);
        (void)cuMemGetInfo(&free_bytes, NULL);
    }
    return nothing;
}

static int case_reset_race(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, use_anyway, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        CUcontext now;
        usleep(2000);
        NEED(cuDevicePrimaryCtxReset(0));
        NEED(cuDevicePrimaryCtxRetain(&now, 0));
    }
    atomic_store(&resets_are_over, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    NEED(cuCtxSetCurrent(context));
    return all_comes_back();
}

/* ---- peers ---- */

static int access_of(CUdeviceptr block, int dev) {
    unsigned long long flags = 9;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, dev};
    return cuMemGetAccess(&flags, &location, block) ? -1 : (int)flags;
}

/* With two devices: peer access covers blocks from before and after it was enabled. */
static int case_peer(void) {
    CUcontext second;
    CUdeviceptr before, after;
    NEED(cuMemAlloc(&before, MIB));
    EXPECT(access_of(before, 1) == 0);
    NEED(cuDevicePrimaryCtxRetain(&second, 1));
    NEED(cuCtxSetCurrent(second));
    NEED(cuCtxEnablePeerAccess(context, 0));
    NEED(cuCtxSetCurrent(context));
    NEED(cuMemAlloc(&after, 100 * MIB));
    EXPECT(access_of(before, 1) == 3 && access_of(after, 1) == 3 && access_of(after, 0) == 3);
    NEED(cuCtxSetCurrent(second));
    NEED(cuCtxDisablePeerAccess(context));
    EXPECT(access_of(before, 1) == 0 && access_of(after, 0) == 3);
    NEED(cuCtxSetCurrent(context));
    NEED(cuMemFree(before));
    NEED(cuMemFree(after));
    return 1;
}

/* ---- other processes ---- */

enum { IPC_WORDS = 3 << 18 };
static const char *self;

static int case_ipc(void) {
    CUdeviceptr block, near;
    CUipcMemHandle handle;
    char hex[2 * sizeof handle + 1];
    unsigned int word = 0;
    pid_t child;
    int status = 1;
    extern char **environ;
    NEED(cuMemAlloc(&near, 777)); /* the block does not begin with its chunk */
    NEED(cuMemAlloc(&block, (size_t)4 * IPC_WORDS));
    NEED(cuMemsetD32(block, 0x1234abcd, IPC_WORDS));
    NEED(cuCtxSynchronize());
    NEED(cuIpcGetMemHandle(&handle, block + 4096));
    for (size_t i = 0; i < sizeof handle; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)handle.reserved[i]);
    char *const arguments[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "ipc-open", hex, NULL};
    EXPECT(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    NEED(cuMemcpyDtoH(&word, block + (size_t)4 * (IPC_WORDS - 1), sizeof word));
    EXPECT(word == 77);
    EXPECT(cuIpcOpenMemHandle_v2(&near, handle, LAZY_PEERS) == CUDA_ERROR_INVALID_CONTEXT);
    NEED(cuMemFree(block));
    return 1;
}

/* With --ipc=driver. */
static int case_ipc_driver(void) {
    CUdeviceptr small, large, matrix;
    size_t pitch;
    NEED(cuMemAlloc(&small, 2 * MIB - 1));
    NEED(cuMemAlloc(&large, 2 * MIB));
    NEED(cuMemAllocPitch(&matrix, &pitch, 4096, 1024, 4));
    EXPECT(is_served(small) && !is_served(large) && !is_served(matrix));
    NEED(cuMemFree(small));
    NEED(cuMemFree(large));
    NEED(cuMemFree(matrix));
    return 1;
}

/* acre can open no socket for other processes. */
static int case_ipc_refused(void) {
    CUdeviceptr block;
    CUipcMemHandle handle;
    struct rlimit files;
    NEED(cuMemAlloc(&block, MIB));
    EXPECT(getrlimit(RLIMIT_NOFILE, &files) == 0);
    rlim_t before = files.rlim_cur;
    files.rlim_cur = 3;
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    EXPECT(cuIpcGetMemHandle(&handle, block) == CUDA_ERROR_OUT_OF_MEMORY);
    files.rlim_cur = before;
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    NEED(cuIpcGetMemHandle(&handle, block));
    NEED(cuMemFree(block));
    return 1;
}

/* A daemon closes all descriptors, and opens others of its own. */
static int case_ipc_closed(void) {
    CUdeviceptr block;
    CUipcMemHandle before, after;
    int pair[2];
    NEED(cuMemAlloc(&block, MIB));
    NEED(cuIpcGetMemHandle(&before, block));
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    for (int i = 0; i < 100; i++)
        EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    NEED(cuIpcGetMemHandle(&after, block)); /* of another server */
    EXPECT(memcmp(&before, &after, sizeof before) != 0);
    NEED(cuMemFree(block));
    return 1;
}

static int ipc_open(const char *hex) {
    CUipcMemHandle handle;
    CUdeviceptr block = 0, again, start;
    size_t bytes;
    unsigned int words[2];
    EXPECT(strlen(hex) == 2 * sizeof handle);
    for (size_t i = 0; i < sizeof handle; i++) {
        char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        handle.reserved[i] = (char)strtoul(two, NULL, 16);
    }
    NEED(cuIpcOpenMemHandle_v2(&block, handle, LAZY_PEERS));
    NEED(cuIpcOpenMemHandle_v2(&again, handle, LAZY_PEERS));
    EXPECT(again == block);
    NEED(cuMemGetAddressRange(&start, &bytes, block + 5));
    EXPECT(start == block && bytes == (size_t)4 * IPC_WORDS);
    NEED(cuMemcpyDtoH(&words[0], block, 4));
    NEED(cuMemcpyDtoH(&words[1], block + (size_t)4 * (IPC_WORDS - 1), 4));
    EXPECT(words[0] == 0x1234abcd && words[1] == 0x1234abcd);
    NEED(cuMemsetD32(block + (size_t)4 * (IPC_WORDS - 1), 77, 1));
    NEED(cuCtxSynchronize());
    EXPECT(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
    NEED(cuIpcCloseMemHandle(block));
    NEED(cuIpcCloseMemHandle(block));
    EXPECT(cuMemGetAddressRange(&start, &bytes, block) == CUDA_ERROR_NOT_FOUND);
    handle.reserved[20] ^= 1; /* another address */
    EXPECT(cuIpcOpenMemHandle_v2(&block, handle, LAZY_PEERS) != CUDA_SUCCESS);
    return 1;
}

/* Allocates, uses and frees a little of everything. For the loop over failing driver calls. */
static int case_life(void) {
    CUdeviceptr blocks[4];
    unsigned int word = 0;
    for (int i = 0; i < 4; i++)
        NEED(cuMemAlloc(&blocks[i], (size_t)1 << (8 + 5 * i)));
    NEED(cuMemsetD32(blocks[3], 5, 1000));
    NEED(cuMemcpyDtoH(&word, blocks[3], sizeof word));
    EXPECT(word == 5);
    for (int i = 0; i < 4; i++)
        NEED(cuMemFree(blocks[i]));
    NEED(cuDevicePrimaryCtxReset(0));
    return 1;
}

static int run(const char *name) {
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {{"served", case_served},
                 {"own", case_own},
                 {"reset", case_reset},
                 {"idle", case_idle},
                 {"zero", case_zero},
                 {"retry", case_retry},
                 {"memops", case_memops},
                 {"threads", case_threads},
                 {"threads-brief", case_threads_brief},
                 {"fork", case_fork},
                 {"capture", case_capture},
                 {"ipc", case_ipc},
                 {"ipc-driver", case_ipc_driver},
                 {"ipc-refused", case_ipc_refused},
                 {"ipc-closed", case_ipc_closed},
                 {"life", case_life},
                 {"peer", case_peer},
                 {"thread-exit", case_thread_exit},
                 {"callback-exit", case_callback_exit},
                 {"captures-end", case_captures_end},
                 {"reset-race", case_reset_race}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, name) == 0)
            return cases[i].run();
    }
    printf("there is no case of this name\n");
    return 0;
}

int main(int argc, char **argv) {
    int failed = 0;
    self = argv[0];
    if (!begin())
        return 1;
    if (argc == 3 && strcmp(argv[1], "ipc-open") == 0)
        return !ipc_open(argv[2]);
    for (int i = 1; i < argc; i++) {
        int is_ok = run(argv[i]);
        printf("%s: %s\n", argv[i], is_ok ? "ok" : "FAILED");
        failed += !is_ok;
    }
    return failed != 0;
}

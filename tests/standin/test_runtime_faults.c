/* How the runtime handles failures of the driver below it, and its messages for calls that it does
 * not have. For the stand-in only: the driver of a GPU does not fail on request.
 *
 * The fault plan is read when a process starts, so each case is a separate process: this program
 * again, with a word that selects the case. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "runtime_expect.h"
#include "support/rounds.h"

extern char **environ;

/* ---- the program again ---- */

enum { OUTPUT_BYTES = 4096 };

/* Runs this program with the word and returns its stderr in `output`. Returns its exit code, or -1
 * if it did not exit normally. */
static int again(const char *word, const char *fault, char output[OUTPUT_BYTES]) {
    char name[] = "/tmp/acre-faults-XXXXXX", self[] = "/proc/self/exe";
    char *arguments[] = {self, (char *)(uintptr_t)word, NULL};
    posix_spawn_file_actions_t actions;
    int status = 0, file = mkstemp(name);
    pid_t child;
    assert_true(file >= 0);
    assert_int_equal(setenv("ACRE_FAULT", fault, 1), 0);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, file, 2), 0);
    assert_int_equal(posix_spawn(&child, self, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    ssize_t bytes = pread(file, output, OUTPUT_BYTES - 1, 0);
    output[bytes > 0 ? bytes : 0] = '\0';
    close(file);
    unlink(name);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* With the thread sanitizer every process sleeps for a second when it exits, to detect late races.
 * That is too long for hundreds of processes. */
static void again_without_sleep(void) {
    const char *given = getenv("TSAN_OPTIONS");
    char options[512];
    snprintf(options, sizeof options, "%s:atexit_sleep_ms=0", given ? given : "");
    setenv("TSAN_OPTIONS", options, 1);
}

static unsigned count_of(const char *text, const char *what) {
    unsigned count = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

/* ---- counted failures ---- */

/* Each run has one failure. The call that it hits returns the error, sets it as the last error,
 * changes nothing, and succeeds when repeated. */
static struct {
    cudaError_t planned;
    unsigned seen;
} counted;

static int counted_failed(cudaError_t error, const char *call) {
    cudaError_t last = cudaGetLastError();
    if (error == cudaSuccess && last == cudaSuccess)
        return 0;
    if (error != counted.planned || last != error || counted.seen > 0) {
        fprintf(stderr, "%s: returned %s, the last error was %s, injected was %s\n", call,
                cudaGetErrorName(error), cudaGetErrorName(last), cudaGetErrorName(counted.planned));
        exit(1);
    }
    counted.seen++;
    return 1;
}

/* Repeats the call after the one failure. */
#define STEP(call)                                                                                 \
    do {                                                                                           \
    } while (counted_failed((call), #call))

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Exit code 0: no call failed; 3: one failed, and all checks passed; 1: a check failed. */
static int counted_run(void) {
    enum { BYTES = 4096 };
    unsigned char out[BYTES], in[BYTES], *pinned = NULL, *managed = NULL;
    size_t before = 0, after = 0, total = 0, pitch = 0;
    struct cudaDeviceProp prop;
    struct cudaPointerAttributes pointer;
    cudaStream_t stream = NULL;
    cudaEvent_t start = NULL, end = NULL;
    void *p = NULL, *plane = NULL, *view = NULL;
    int count = 0;
    float ms = -1;

    memset(out, 42, BYTES);
    STEP(cudaGetDeviceCount(&count));
    CHECK(count == 2);
    STEP(cudaGetDeviceProperties(&prop, 0));
    STEP(cudaSetDevice(0));
    STEP(cudaMemGetInfo(&before, &total));
    STEP(cudaMalloc(&p, BYTES));
    STEP(cudaMallocPitch(&plane, &pitch, 100, 4));
    STEP(cudaMallocHost((void **)&pinned, BYTES));
    STEP(cudaHostGetDevicePointer(&view, pinned, 0));
    STEP(cudaMallocManaged((void **)&managed, BYTES, cudaMemAttachGlobal));
    STEP(cudaMemPrefetchAsync(managed, BYTES, on_device(0), 0, NULL));
    STEP(cudaStreamCreate(&stream));
    STEP(cudaEventCreate(&start));
    STEP(cudaEventCreate(&end));
    STEP(cudaEventRecord(start, stream));
    STEP(cudaMemcpy(p, out, BYTES, cudaMemcpyHostToDevice));
    STEP(cudaMemcpyAsync(pinned, p, BYTES, cudaMemcpyDefault, stream));
    STEP(cudaEventRecord(end, stream));
    STEP(cudaEventSynchronize(end));
    STEP(cudaEventElapsedTime(&ms, start, end));
    CHECK(pinned[BYTES - 1] == 42);
    STEP(cudaMemset2D(plane, pitch, 5, 100, 4));
    STEP(cudaMemcpy2D(in, 100, plane, pitch, 100, 4, cudaMemcpyDeviceToHost));
    CHECK(in[399] == 5);
    STEP(cudaPointerGetAttributes(&pointer, p));
    CHECK(pointer.type == cudaMemoryTypeDevice);
    STEP(cudaMemcpyPeer(p, 0, plane, 0, 100));
    STEP(cudaDeviceSynchronize());
    STEP(cudaEventDestroy(start));
    STEP(cudaEventDestroy(end));
    STEP(cudaStreamDestroy(stream));
    STEP(cudaFreeHost(pinned));
    STEP(cudaFree(managed));
    STEP(cudaFree(plane));
    STEP(cudaFree(p));
    STEP(cudaMemGetInfo(&after, &total));
    CHECK(before == after);
    return counted.seen > 0 ? 3 : 0;
}

static void faults_counted(const char *code) {
    char fault[64], output[OUTPUT_BYTES];
    unsigned nth = 0, passed = 0, hit = 0;
    /* A driver call may fail without effect (a query whose result is not needed), so the loop ends
     * after 8 runs in a row in which no call failed. */
    while (passed < 8) {
        snprintf(fault, sizeof fault, "*:%u:once:%s", ++nth, code);
        int result = again(code, fault, output);
        if (result != 0 && result != 3)
            fail_msg("with %s the program exited with %d:\n%s", fault, result, output);
        passed = result == 0 ? passed + 1 : 0;
        hit += result == 3;
        if (ROUNDS_ARE_FEW)
            nth += 6;
    }
    assert_true(hit > (ROUNDS_ARE_FEW ? 10 : 100));
}

TEST(faults_out_of_memory_is_passed_on) {
    faults_counted("2");
}

/* A code that only the driver has: the runtime maps it to cudaErrorUnknown. */
TEST(faults_codes_of_the_driver_alone_are_unknown) {
    faults_counted("202");
}

/* ---- a lost device ---- */

/* The call fails because the device is lost, and sets the last error once. */
#define LOST(call)                                                                                 \
    do {                                                                                           \
        CHECK((call) == cudaErrorIllegalAddress);                                                  \
        CHECK(cudaPeekAtLastError() == cudaErrorIllegalAddress);                                   \
        CHECK(cudaGetLastError() == cudaErrorIllegalAddress);                                      \
        CHECK(cudaGetLastError() == cudaSuccess);                                                  \
    } while (0)

/* The call does not need the lost device. */
#define KEPT(call)                                                                                 \
    do {                                                                                           \
        CHECK((call) == cudaSuccess);                                                              \
        CHECK(cudaGetLastError() == cudaSuccess);                                                  \
    } while (0)

/* Measured on an H200 after a kernel had written to an invalid address. */
static int sticky_run(void) {
    void *p = NULL, *q = NULL, *pinned = NULL;
    size_t free_bytes, total;
    int number, byte;
    struct cudaDeviceProp prop;
    struct cudaPointerAttributes pointer;
    cudaMemPool_t pool;
    cudaStream_t stream;
    cudaEvent_t event;
    KEPT(cudaMalloc(&p, 64));
    KEPT(cudaMallocHost(&pinned, 64));
    KEPT(cudaEventCreate(&event));
    LOST(cudaMalloc(&q, 64));
    LOST(cudaDeviceSynchronize());
    LOST(cudaMalloc(&q, 64));
    LOST(cudaFree(p));
    LOST(cudaFreeHost(pinned));
    LOST(cudaMemGetInfo(&free_bytes, &total));
    KEPT(cudaGetDevice(&number));
    KEPT(cudaSetDevice(0));
    KEPT(cudaGetDeviceCount(&number));
    KEPT(cudaGetDeviceProperties(&prop, 0));
    KEPT(cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 0));
    LOST(cudaStreamCreate(&stream));
    LOST(cudaEventQuery(event));
    LOST(cudaEventRecord(event, NULL));
    KEPT(cudaPointerGetAttributes(&pointer, p));
    KEPT(cudaDeviceGetDefaultMemPool(&pool, 0));
    LOST(cudaMallocAsync(&q, 64, NULL));
    KEPT(cudaMemPoolTrimTo(pool, 0));
    KEPT(cudaDriverGetVersion(&number));
    KEPT(cudaRuntimeGetVersion(&number));
    LOST(cudaMemcpy(&byte, p, 4, cudaMemcpyDeviceToHost));
    LOST(cudaMemset(p, 0, 64));
    KEPT(cudaDeviceReset());
    return 0;
}

TEST(faults_lost_device_is_said_by_every_call_once) {
    char output[OUTPUT_BYTES];
    int result = again("sticky", "cuMemAlloc:2:sticky:700", output);
    if (result != 0)
        fail_msg("the program exited with %d:\n%s", result, output);
}

/* ---- missing calls ---- */

cudaError_t cudaProfilerStart(void);
cudaError_t cudaGraphLaunch_ptsz(void *graph, cudaStream_t stream);

unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared_bytes,
                                     cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared_bytes,
                                       void *stream);
cudaError_t __cudaGetKernel(void **kernel, const void *function);
cudaError_t __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **arguments,
                               size_t shared_bytes, cudaStream_t stream);
cudaError_t cudaLaunchKernel(const void *function, struct dim3 grid, struct dim3 block,
                             void **arguments, size_t shared_bytes, cudaStream_t stream);
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int limit, void *tid, void *bid, void *block, void *grid, int *warp);
void __cudaUnregisterFatBinary(void **handle);
char __cudaInitModule(void **handle);

struct channel {
    int x, y, z, w, kind;
};
struct channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind);

static int absent_run(void) {
    struct channel channel = cudaCreateChannelDesc(8, 16, 0, 1, 2);
    for (int i = 0; i < 3; i++) {
        CHECK(cudaProfilerStart() == cudaErrorNotSupported);
        CHECK(cudaGetLastError() == cudaErrorNotSupported);
        CHECK(cudaGraphLaunch_ptsz(NULL, NULL) == cudaErrorNotSupported);
    }
    CHECK(channel.x == 8 && channel.y == 16 && channel.w == 1 && channel.kind == 2);
    return 0;
}

TEST(faults_absent_calls_say_so_once) {
    char output[OUTPUT_BYTES];
    int result = again("absent", "*:0", output);
    if (result != 0)
        fail_msg("the program exited with %d:\n%s", result, output);
    assert_int_equal(count_of(output, "acre: "), 2);
    assert_int_equal(count_of(output, "acre: cudaProfilerStart "), 1);
    assert_int_equal(count_of(output, "acre: cudaGraphLaunch_ptsz "), 1);
    assert_int_equal(count_of(output, "\n"), 2);
}

/* What nvcc generates for a program with a kernel. */
static int kernel_run(void) {
    struct dim3 grid = {1, 2, 3}, block = {4, 5, 6}, got_grid, got_block;
    size_t shared_bytes = 0;
    cudaStream_t stream = NULL;
    char function = 0;
    void *kernel = NULL, **handle = __cudaRegisterFatBinary(&function);
    __cudaRegisterFunction(handle, &function, &function, "k", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handle);
    CHECK(handle != NULL && __cudaInitModule(handle) != 0);
    for (int i = 0; i < 2; i++) {
        CHECK(__cudaGetKernel(&kernel, &function) == cudaSuccess);
        CHECK(__cudaPushCallConfiguration(grid, block, 7, cudaStreamPerThread) == 0);
        CHECK(__cudaPushCallConfiguration(block, grid, 8, NULL) == 0);
        CHECK(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream) == 0);
        CHECK(got_grid.z == 6 && got_block.z == 3 && shared_bytes == 8 && stream == NULL);
        CHECK(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream) == 0);
        CHECK(got_grid.z == 3 && got_block.z == 6 && stream == cudaStreamPerThread);
        CHECK(__cudaPopCallConfiguration(&got_grid, &got_block, &shared_bytes, &stream) ==
              cudaErrorMissingConfiguration);
        CHECK(__cudaLaunchKernel(kernel, got_grid, got_block, NULL, shared_bytes, stream) ==
              cudaErrorNotSupported);
        CHECK(cudaLaunchKernel(&function, got_grid, got_block, NULL, shared_bytes, stream) ==
              cudaErrorNotSupported);
        CHECK(cudaGetLastError() == cudaErrorNotSupported);
    }
    __cudaUnregisterFatBinary(handle);
    return 0;
}

TEST(faults_kernels_are_refused_and_say_why) {
    char output[OUTPUT_BYTES];
    int result = again("kernel", "*:0", output);
    if (result != 0)
        fail_msg("the program exited with %d:\n%s", result, output);
    assert_int_equal(count_of(output, "acre: "), 1);
    assert_int_equal(count_of(output, "acre: cudaLaunchKernel: kernels need a GPU"), 1);
}

static int run_again(const char *word) {
    if (strcmp(word, "sticky") == 0)
        return sticky_run();
    if (strcmp(word, "absent") == 0)
        return absent_run();
    if (strcmp(word, "kernel") == 0)
        return kernel_run();
    counted.planned = strcmp(word, "2") == 0 ? cudaErrorMemoryAllocation : cudaErrorUnknown;
    return counted_run();
}

int main(int argc, char **argv) {
    if (argc > 1)
        return run_again(argv[1]);
    setenv("ACRE_SOFT_DEVICES", "2", 1);
    again_without_sleep();
    return tests_run("runtime_faults");
}

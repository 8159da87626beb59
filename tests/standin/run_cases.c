/* A program for the tests of `acre run`: runs the case named by its first argument and exits with
 * the second (default 0). Written against CUDA's headers, as a user's program. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "../../report/run_file.h"

static void need(int ok, const char *what, int code) {
    if (!ok) {
        printf("%s: %d\n", what, code);
        exit(9);
    }
}

#define RT(call)                                                                                   \
    do {                                                                                           \
        cudaError_t code_ = (call);                                                                \
        need(code_ == cudaSuccess, #call, (int)code_);                                             \
    } while (0)
#define DRV(call)                                                                                  \
    do {                                                                                           \
        CUresult code_ = (call);                                                                   \
        need(code_ == CUDA_SUCCESS, #call, (int)code_);                                            \
    } while (0)

static void enter_driver(void) {
    CUdevice dev;
    CUcontext ctx;
    DRV(cuInit(0));
    DRV(cuDeviceGet(&dev, 0));
    DRV(cuDevicePrimaryCtxRetain(&ctx, dev));
    DRV(cuCtxSetCurrent(ctx));
}

/* ---- memory ---- */

static void do_clean(void) {
    void *device, *pinned, *managed;
    RT(cudaMalloc(&device, 1 << 20));
    RT(cudaMallocHost(&pinned, 1 << 20));
    RT(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
    RT(cudaMemcpy(device, pinned, 1 << 20, cudaMemcpyHostToDevice));
    RT(cudaFree(managed));
    RT(cudaFreeHost(pinned));
    RT(cudaFree(device));
}

/* An allocation of 0 bytes succeeds with NULL, and freeing it is a no-op. */
static void do_no_bytes(void) {
    void *pinned = &pinned;
    RT(cudaMallocHost(&pinned, 0));
    need(pinned == NULL, "pinned", 0);
    RT(cudaFreeHost(pinned));
}

/* Opens the libraries by names that are not preloaded. */
static void do_other_names(void) {
    void *driver = dlopen("libcuda.so", RTLD_NOW), *runtime = dlopen("libcudart.so", RTLD_NOW);
    need(driver && dlsym(driver, "cuInit") == (void *)(uintptr_t)cuInit, "libcuda.so", 0);
    need(runtime && dlsym(runtime, "cudaFree") == (void *)(uintptr_t)cudaFree, "libcudart.so", 0);
    RT(cudaFree(NULL));
}

static void *wait_for_it(void *stream) {
    RT(cudaStreamSynchronize(stream));
    return NULL;
}

static void wait_a_while(void *nothing) {
    (void)nothing;
    usleep(50000);
}

/* A thread is cancelled while it waits. */
static void do_cancel(void) {
    cudaStream_t stream;
    pthread_t thread;
    RT(cudaStreamCreate(&stream));
    RT(cudaLaunchHostFunc(stream, wait_a_while, NULL));
    need(pthread_create(&thread, NULL, wait_for_it, stream) == 0, "a thread", 0);
    usleep(10000);
    pthread_cancel(thread);
    need(pthread_join(thread, NULL) == 0, "its end", 0);
    RT(cudaStreamDestroy(stream));
}

/* Leaks three blocks of one call, one of another, and a mapping whose handle was released. */
static void do_leak(void) {
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    void *p;
    for (int i = 0; i < 3; i++)
        RT(cudaMalloc(&p, 1000));
    RT(cudaMallocHost(&p, 5000));
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    DRV(cuMemAddressReserve(&at, (size_t)8 << 20, 0, 0, 0));
    DRV(cuMemCreate(&handle, (size_t)2 << 20, &prop, 0));
    DRV(cuMemMap(at, (size_t)2 << 20, 0, handle, 0));
    DRV(cuMemRelease(handle));
}

/* Chunks freed with their handle, with their mapping, and with a handle retained from the
 * mapping. */
static void do_chunks(void) {
    const size_t bytes = (size_t)2 << 20;
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr at;
    enter_driver();
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    DRV(cuMemAddressReserve(&at, 4 * bytes, 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        DRV(cuMemCreate(&handle, bytes, &prop, 0));
        DRV(cuMemMap(at, bytes, 0, handle, 0));
        if (i > 0)
            DRV(cuMemRelease(handle));
        if (i > 1)
            DRV(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at));
        DRV(cuMemUnmap(at, bytes));
        if (i != 1)
            DRV(cuMemRelease(i ? again : handle));
    }
    DRV(cuMemAddressFree(at, 4 * bytes));
}

/* Stream-ordered memory is freed on a stream or with a plain free. The last block and its pool
 * leak. */
static void do_ordered(void) {
    struct cudaMemPoolProps props;
    cudaMemPool_t pool;
    cudaStream_t stream;
    void *p;
    RT(cudaStreamCreate(&stream));
    RT(cudaMallocAsync(&p, 1 << 20, stream));
    RT(cudaFreeAsync(p, stream));
    RT(cudaMallocAsync(&p, 1 << 20, stream));
    RT(cudaStreamSynchronize(stream));
    RT(cudaFree(p));
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    RT(cudaMemPoolCreate(&pool, &props));
    RT(cudaMemPoolDestroy(pool));
    RT(cudaMemPoolCreate(&pool, &props));
    RT(cudaMallocFromPoolAsync(&p, 5000, pool, stream));
    RT(cudaStreamDestroy(stream));
}

/* Freed by an exit handler, so it is not a leak. */
static void *kept_to_the_end;

static void free_at_exit(void) {
    RT(cudaFree(kept_to_the_end));
}

static void do_exit_handler(void) {
    RT(cudaMalloc(&kept_to_the_end, 4096));
    atexit(free_at_exit);
}

/* Invalid frees change nothing: the block is still live. */
static void do_wrong_free(void) {
    char *p;
    void *q;
    RT(cudaMalloc((void **)&p, 4096));
    need(cudaFree(p + 16) == cudaErrorInvalidValue, "free inside", 0);
    need(cudaFreeHost(p) != cudaSuccess, "free as host memory", 0);
    need(cudaMalloc(&q, (size_t)1 << 60) == cudaErrorMemoryAllocation, "too much", 0);
}

/* Memory destroyed with its context counts as leaked. */
static void do_reset(void) {
    const struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                           .location = {.type = cudaMemLocationTypeDevice}};
    cudaMemPool_t pool;
    void *p;
    RT(cudaMalloc(&p, 4096));
    RT(cudaMemPoolCreate(&pool, &props));
    RT(cudaDeviceReset());
    RT(cudaMalloc(&p, 100));
    RT(cudaFree(p));
}

/* ---- threads ---- */

static void *churn(void *seed) {
    uint32_t state = (uint32_t)(uintptr_t)seed * 2654435761u + 1;
    void *held[16] = {NULL};
    int is_host[16] = {0};
    for (int i = 0; i < 400; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned slot = state >> 28;
        if (held[slot]) {
            if (is_host[slot])
                RT(cudaFreeHost(held[slot]));
            else
                RT(cudaFree(held[slot]));
            held[slot] = NULL;
        } else {
            is_host[slot] = state >> 12 & 1;
            if (is_host[slot])
                RT(cudaMallocHost(&held[slot], 64 + (state & 4095)));
            else
                RT(cudaMalloc(&held[slot], 64 + (state & 65535)));
        }
    }
    for (int i = 0; i < 16; i++) {
        if (held[i] && is_host[i])
            RT(cudaFreeHost(held[i]));
        else if (held[i])
            RT(cudaFree(held[i]));
    }
    return NULL;
}

static void do_threads(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        need(pthread_create(&threads[i], NULL, churn, (void *)i) == 0, "thread", 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* Two threads free the same block at once, a bug of the program. One of them gets an error. The
 * threads spin until both are ready, since a sleeping one would come too late. */
static struct {
    _Atomic unsigned arrived;
    void *p;
    int freed[2];
} twice;

enum { TWICE_ROUNDS = 4000 };

static void twice_meet(unsigned round) {
    atomic_fetch_add(&twice.arrived, 1);
    for (unsigned turns = 1; atomic_load(&twice.arrived) < 2 * round; turns++) {
        if (turns % 1024 == 0)
            sched_yield();
    }
}

static void *free_again(void *nothing) {
    (void)nothing;
    for (unsigned i = 0; i < TWICE_ROUNDS; i++) {
        twice_meet(2 * i + 1);
        twice.freed[1] = cudaFreeAsync(twice.p, cudaStreamPerThread) == cudaSuccess;
        twice_meet(2 * i + 2);
    }
    return NULL;
}

static void do_free_twice(void) {
    pthread_t thread;
    need(pthread_create(&thread, NULL, free_again, NULL) == 0, "thread", 0);
    for (unsigned i = 0; i < TWICE_ROUNDS; i++) {
        if (i % 2)
            RT(cudaMalloc(&twice.p, 4096));
        else
            RT(cudaMallocAsync(&twice.p, 4096, NULL));
        RT(cudaDeviceSynchronize());
        twice_meet(2 * i + 1);
        twice.freed[0] = cudaFree(twice.p) == cudaSuccess;
        twice_meet(2 * i + 2);
        need(twice.freed[0] + twice.freed[1] == 1, "freed", (int)i);
    }
    pthread_join(thread, NULL);
    RT(cudaDeviceSynchronize());
}

/* ---- faults ---- */

static void do_fault_device(void) {
    char *p;
    RT(cudaMalloc((void **)&p, 4096));
    puts("now");
    fflush(stdout);
    *(volatile char *)(p + 16) = 1;
}

static void do_fault_reserved(void) {
    CUdeviceptr at;
    enter_driver();
    DRV(cuMemAddressReserve(&at, (size_t)8 << 20, 0, 0, 0));
    *(volatile char *)(uintptr_t)(at + 4096) = 1;
}

/* Right after the free, so that nothing else can be mapped there. */
static void do_fault_freed(void) {
    char *p;
    RT(cudaMallocHost((void **)&p, 4096));
    RT(cudaFreeHost(p));
    *(volatile char *)(p + 16) = 1;
}

static void do_fault_reset(void) {
    char *p;
    RT(cudaMallocHost((void **)&p, 4096));
    RT(cudaDeviceReset());
    *(volatile char *)(p + 16) = 1;
}

static void *fault_page;

/* In place of the C library's: acre's message about the fault goes through it. Then pages are
 * mapped at the address, as another thread may map some, and the instruction would succeed if it
 * were repeated. */
__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t bytes) {
    static const char text[] = "mapped\n";
    if (fault_page && fd == STDERR_FILENO &&
        mmap(fault_page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) == fault_page)
        (void)syscall(SYS_write, STDOUT_FILENO, text, sizeof text - 1);
    return syscall(SYS_write, fd, data, bytes);
}

static void do_fault_mapped(void) {
    char *p;
    RT(cudaMallocHost((void **)&p, 4096));
    RT(cudaFreeHost(p));
    fault_page = p;
    *(volatile char *)(p + 16) = 1;
    fault_page = NULL;
}

static void do_fault_other(void) {
    void *p;
    RT(cudaMalloc(&p, 4096));
    RT(cudaFree(p));
    p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(p != MAP_FAILED, "a page", 0);
    *(volatile char *)p = 1;
}

/* ---- processes ---- */

static int wait_for(pid_t child) {
    int status = 0;
    need(child > 0 && waitpid(child, &status, 0) == child, "child", 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A forked child of a process that has used CUDA cannot use it. The child's exit reports nothing
 * about memory of the parent. */
static void do_fork_after(void) {
    void *p, *q;
    RT(cudaMalloc(&p, 4096));
    pid_t child = fork();
    if (child == 0) {
        cudaError_t code = cudaMalloc(&q, 16);
        exit(code == cudaErrorInitializationError ? 5 : 6);
    }
    need(wait_for(child) == 5, "the child's CUDA", 0);
    RT(cudaFree(p));
}

static void do_fork_before(void) {
    pid_t child = fork();
    if (child == 0) {
        do_clean();
        exit(7);
    }
    need(wait_for(child) == 7, "the child", 0);
    do_clean();
}

/* A graph allocates two blocks and frees one of them; the program frees the other. */
static void do_graph(void) {
    CUdeviceptr p = 0, rest = 0;
    CUgraphExec exec;
    CUgraph graph;
    CUstream stream;
    enter_driver();
    DRV(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    DRV(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    DRV(cuMemAllocAsync(&p, 4096, stream));
    DRV(cuMemAllocAsync(&rest, 4096, stream));
    DRV(cuMemFreeAsync(p, stream));
    DRV(cuStreamEndCapture(stream, &graph));
    DRV(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        DRV(cuGraphLaunch(exec, stream));
        DRV(cuMemFreeAsync(rest, stream));
    }
    DRV(cuStreamSynchronize(stream));
    DRV(cuGraphExecDestroy(exec));
    DRV(cuGraphDestroy(graph));
    DRV(cuStreamDestroy(stream));
}

/* ---- missing functions, and functions that no header of acre declares ---- */

static void find(const char *name, void *function_out) {
    void *found = dlsym(RTLD_DEFAULT, name);
    need(found != NULL, name, 0);
    memcpy(function_out, &found, sizeof found);
}

static void do_kernel(void) {
    CUresult (*load)(void **, const void *), (*get)(void **, void *, const char *);
    void *module, *function;
    find("cuModuleLoadData", &load);
    find("cuModuleGetFunction", &get);
    enter_driver();
    need(load(&module, "hello") == CUDA_ERROR_INVALID_IMAGE, "no module", 0);
    DRV(load(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"));
    for (int i = 0; i < 2; i++)
        need(get(&function, module, "f") == CUDA_ERROR_NOT_SUPPORTED, "a kernel", 0);
}

/* A handle for other processes exists, but none can open it. */
static void do_ipc(void) {
    CUresult (*get)(void *, CUdeviceptr), (*open)(CUdeviceptr *, const void *, unsigned);
    unsigned char handle[CU_IPC_HANDLE_SIZE];
    CUdeviceptr p = 0, other = 0;
    find("cuIpcGetMemHandle", &get);
    find("cuIpcOpenMemHandle_v2", &open);
    enter_driver();
    DRV(cuMemAlloc(&p, 4096));
    DRV(get(handle, p));
    need(open(&other, handle, 1) == CUDA_ERROR_NOT_SUPPORTED, "an opened handle", 0);
    DRV(cuMemFree(p));
}

static void do_others(void) {
    CUresult (*create)(void **, unsigned), (*table)(const void **, const void *), (*old)(unsigned);
    const void *exported;
    void *graph;
    find("cuGraphCreate", &create);
    for (int i = 0; i < 2; i++)
        need(create(&graph, 0) == CUDA_ERROR_NOT_SUPPORTED, "a graph", 0);
    find("cuGetExportTable", &table);
    need(table(&exported, NULL) == CUDA_ERROR_NOT_SUPPORTED, "a table", 0);
    find("cuMemFree", &old);
    need(old(0) == CUDA_ERROR_NOT_SUPPORTED, "cuMemFree of before 3.2", 0);
}

/* A program that handles errors: it frees what it has and prints the error. */
static void do_careful(void) {
    void *device = NULL, *pinned = NULL;
    cudaStream_t stream = NULL;
    cudaError_t code = cudaMalloc(&device, 4096);
    if (!code)
        code = cudaMallocHost(&pinned, 4096);
    if (!code)
        code = cudaStreamCreate(&stream);
    if (!code)
        code = cudaMemcpyAsync(device, pinned, 4096, cudaMemcpyHostToDevice, stream);
    if (!code)
        code = cudaStreamSynchronize(stream);
    if (stream)
        (void)cudaStreamDestroy(stream);
    (void)cudaFreeHost(pinned);
    (void)cudaFree(device);
    puts(code ? "refused" : "done");
}

/* ---- refused calls ---- */

/* Refused twice at one place, once at another. */
static void do_double_free(void) {
    void *p;
    RT(cudaMalloc(&p, 4096));
    RT(cudaFree(p));
    for (int i = 0; i < 2; i++)
        need(cudaFree(p) == cudaErrorInvalidValue, "a double free", 0);
    need(cudaFreeHost(&p) == cudaErrorInvalidValue, "a free of the stack", 0);
}

static void do_overrun(void) {
    static char host[8192];
    char *p, *q;
    RT(cudaMalloc((void **)&p, 4096));
    RT(cudaMalloc((void **)&q, 4096));
    need(cudaMemcpy(p, host, 8192, cudaMemcpyHostToDevice) != cudaSuccess, "an overrun", 0);
    need(cudaMemcpy(host, p + 4000, 100, cudaMemcpyDeviceToHost) != cudaSuccess, "an overrun", 0);
    need(cudaMemset(p, 0, 5000) != cudaSuccess, "a fill past the end", 0);
    RT(cudaFree(q));
    need(cudaMemcpy(q, host, 16, cudaMemcpyHostToDevice) != cudaSuccess, "a use after free", 0);
    RT(cudaFree(p));
}

/* Refused at 256 places. */
static void do_places(void) {
    int refused = 0;
    RT(cudaFree(NULL));
#define FREE4 +FREE1 + FREE1 + FREE1 + FREE1
#define FREE1 (cudaFree(&refused) != cudaSuccess)
#define FREE16 FREE4 FREE4 FREE4 FREE4
#define FREE64 FREE16 FREE16 FREE16 FREE16
    refused = 0 FREE64 FREE64 FREE64 FREE64;
    need(refused == 256, "refused", refused);
}

/* 3000 live blocks, half of them allocated again at the place of freed ones. */
static void do_many(void) {
    enum { MANY = 3000 };
    static void *p[MANY];
    for (int i = 0; i < MANY; i++)
        RT(cudaMalloc(&p[i], 1000));
    for (int i = 0; i < MANY; i += 2)
        RT(cudaFree(p[i]));
    for (int i = 0; i < MANY; i += 2)
        RT(cudaMalloc(&p[i], 10));
    abort();
}

static void wait_for_host(void *flag) {
    while (!atomic_load((atomic_int *)flag))
        usleep(1000);
}

/* Results that a correct program expects are not errors. The stream waits for the queries, which
 * may take any time. */
static void do_expected(void) {
    static atomic_int is_queried;
    cudaStream_t stream;
    cudaEvent_t event;
    struct cudaPointerAttributes attributes;
    void *p = NULL;
    RT(cudaStreamCreate(&stream));
    RT(cudaEventCreate(&event));
    RT(cudaLaunchHostFunc(stream, wait_for_host, &is_queried));
    RT(cudaEventRecord(event, stream));
    need(cudaStreamQuery(stream) == cudaErrorNotReady, "the stream", 0);
    need(cudaEventQuery(event) == cudaErrorNotReady, "the event", 0);
    atomic_store(&is_queried, 1);
    RT(cudaStreamSynchronize(stream));
    need(cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)(uintptr_t)&p) ==
             CUDA_ERROR_INVALID_VALUE,
         "an unknown address", 0);
    RT(cudaPointerGetAttributes(&attributes, &p));
    RT(cudaEventDestroy(event));
    RT(cudaStreamDestroy(stream));
}

/* Two streams write to the same memory, and nothing orders them. */
static void do_race(void) {
    cudaStream_t first, second;
    void *p;
    RT(cudaMalloc(&p, 4096));
    RT(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    RT(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    RT(cudaMemsetAsync(p, 1, 4096, first));
    RT(cudaMemsetAsync(p, 2, 4096, second));
    (void)cudaDeviceSynchronize();
    (void)cudaFree(p);
}

/* ---- ends without exit handlers ---- */

static void do_abort(void) {
    do_leak();
    abort();
}

static void do_quick_exit(void) {
    do_leak();
    _exit(0);
}

static void do_kill(void) {
    do_leak();
    kill(getpid(), SIGKILL);
}

/* A child leaks and is killed, and the program is clean. */
static void do_kill_child(void) {
    int status;
    pid_t child = fork();
    if (child == 0)
        do_kill();
    need(child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status), "child", 0);
    do_clean();
}

static volatile sig_atomic_t got_signal;

static void on_signal(int number) {
    got_signal = number;
}

/* Waits for SIGTERM, which `acre run` forwards. */
static void do_wait(void) {
    signal(SIGTERM, on_signal);
    do_leak();
    puts("ready");
    fflush(stdout);
    while (!got_signal)
        usleep(1000);
    puts("got it");
    exit(6);
}

/* Opens the file of records. */
static FILE *open_records(void) {
    long tool = 0, fd = 0;
    char path[64];
    const char *file = strstr(getenv("ACRE_RUN"), "file=");
    need(file && sscanf(file, "file=%ld/%ld", &tool, &fd) == 2, "ACRE_RUN", 0);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", tool, fd);
    FILE *out = fopen(path, "r+");
    need(out != NULL, path, 0);
    return out;
}

/* Zeroes as many bytes of the records as BYTES says, from the first head. */
static void do_zero(void) {
    do_leak();
    FILE *out = open_records();
    fseek(out, 65536, SEEK_SET);
    for (int i = atoi(getenv("BYTES")); i > 0; i--)
        fputc(0, out);
    fclose(out);
    _exit(0);
}

/* Takes chunks of the file of records, as processes do (report/run_file.h), until it is full:
 * chunks of no process. */
static void take_chunks(struct run_file *file) {
    for (uint32_t chunk; (chunk = atomic_load(&file->chunk_count)) < RUN_CHUNK_LIMIT;) {
        struct run_head *head = (void *)((char *)file + (size_t)chunk * RUN_CHUNK_BYTES);
        atomic_store(&head->kind, RUN_CHUNK_TAKEN);
        atomic_fetch_add(&file->chunk_count, 1);
        struct run_head whole = {.kind = RUN_CHUNK_BLOCKS};
        head->seal = acre__run_seal(&whole);
        atomic_store(&head->kind, RUN_CHUNK_BLOCKS);
        for (volatile int i = 0; i < 1000;)
            i = i + 1;
    }
}

/* Ends while a child takes chunks, which the tool reads meanwhile. */
static void do_busy_child(void) {
    size_t bytes = (size_t)RUN_CHUNK_LIMIT * RUN_CHUNK_BYTES;
    do_clean();
    struct run_file *file =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(open_records()), 0);
    need(file != MAP_FAILED, "mmap", 0);
    if (fork() == 0)
        take_chunks(file);
    else
        while (atomic_load(&file->chunk_count) < RUN_CHUNK_LIMIT / 4)
            sched_yield();
    _exit(0);
}

/* Fills the file of records with garbage from a seed: all of it, or with HEADS only what no seal
 * protects (report/run_file.h). */
static void do_scribble(void) {
    const char *seed = getenv("SEED");
    need(seed != NULL, "SEED", 0);
    do_leak();
    FILE *out = open_records();
    srand((unsigned)atoi(seed));
    for (int i = 0; i < 20000; i++) {
        long at = rand() % (4 * 65536);
        /* Most bytes hit fields of existing records; some states and counts stay valid. */
        at = i % 3 ? at : at / 512 * 512 + rand() % 64;
        int byte = rand() % 4 ? rand() % 4 : rand() % 256;
        if (getenv("HEADS") && at % 65536 < (at < 65536 ? 12 : 104))
            continue;
        fseek(out, at, SEEK_SET);
        fputc(byte, out);
    }
    fclose(out);
    _exit(0);
}

static void do_nothing(void) {
}

static void do_child(void);

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"clean", do_clean},
             {"leak", do_leak},
             {"chunks", do_chunks},
             {"ordered", do_ordered},
             {"exit-handler", do_exit_handler},
             {"wrong-free", do_wrong_free},
             {"reset", do_reset},
             {"threads", do_threads},
             {"free-twice", do_free_twice},
             {"fault-device", do_fault_device},
             {"fault-reserved", do_fault_reserved},
             {"fault-freed", do_fault_freed},
             {"fault-reset", do_fault_reset},
             {"fault-mapped", do_fault_mapped},
             {"fault-other", do_fault_other},
             {"fork-after", do_fork_after},
             {"fork-before", do_fork_before},
             {"graph", do_graph},
             {"kernel", do_kernel},
             {"ipc", do_ipc},
             {"no-bytes", do_no_bytes},
             {"other-names", do_other_names},
             {"cancel", do_cancel},
             {"others", do_others},
             {"careful", do_careful},
             {"double-free", do_double_free},
             {"overrun", do_overrun},
             {"places", do_places},
             {"many", do_many},
             {"expected", do_expected},
             {"race", do_race},
             {"abort", do_abort},
             {"quick-exit", do_quick_exit},
             {"kill", do_kill},
             {"kill-child", do_kill_child},
             {"wait", do_wait},
             {"scribble", do_scribble},
             {"zero", do_zero},
             {"busy-child", do_busy_child},
             {"child", do_child},
             {"nothing", do_nothing}};

static void run_case(const char *name) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run();
            return;
        }
    }
    puts("no such case");
    exit(8);
}

/* A child runs the case that CHILD names and exits. The program is clean, and ignores the child's
 * exit code. */
static void do_child(void) {
    const char *name = getenv("CHILD");
    need(name != NULL, "CHILD", 0);
    pid_t child = fork();
    if (child == 0) {
        run_case(name);
        exit(0);
    }
    (void)wait_for(child);
    do_clean();
}

int main(int argc, char **argv) {
    run_case(argc > 1 ? argv[1] : "");
    return argc > 2 ? atoi(argv[2]) : 0;
}

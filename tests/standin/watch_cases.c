/* A program that finds the driver's functions in every way that programs do, for
 * tests/cli/test_cli_watch.sh. It is not linked with the driver.
 *
 *   watch_cases WAY...    each way allocates 1 MiB and frees it; prints "WAY: ok"
 *
 * Exit status 1 if a way failed. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long address_t;
typedef int (*init_fn)(unsigned);
typedef int (*retain_fn)(void **, int);
typedef int (*current_fn)(void *);
typedef int (*alloc_fn)(address_t *, size_t);
typedef int (*free_fn)(address_t);
typedef int (*array_fn)(void **, const void *);
typedef int (*create_fn)(alloc_fn, address_t *, size_t);
typedef int (*one_fn)(alloc_fn, address_t *, size_t);
typedef int (*ordered_fn)(address_t *, size_t, void *);
typedef int (*host_fn)(void **, size_t);
typedef int (*set_limit_fn)(int, size_t);
typedef int (*get_limit_fn)(size_t *, int);
typedef int (*find4_fn)(const char *, void **, int, uint64_t);
typedef int (*find5_fn)(const char *, void **, int, uint64_t, int *);

static void *driver;   /* handle of the library */
static find4_fn find4; /* NULL: by dlsym */
static find5_fn find5; /* NULL: by find4 or dlsym */

/* Finds a function; `exported` is its name with the suffix. */
static void *find(const char *name, const char *exported) {
    void *found = NULL;
    if (find5) {
        int status = 0;
        return find5(name, &found, 12000, 0, &status) || status ? NULL : found;
    }
    if (find4)
        return find4(name, &found, 11040, 0) ? NULL : found;
    return dlsym(driver, exported);
}

#define FIND(type, name, exported)                                                                 \
    type name;                                                                                     \
    do {                                                                                           \
        void *found = find("cu" #name, exported);                                                  \
        memcpy(&name, &found, sizeof name);                                                        \
        if (!found)                                                                                \
            return 0;                                                                              \
    } while (0)

/* Returns 1 if everything succeeded. */
static int use(void) {
    void *context;
    address_t block = 0;
    FIND(init_fn, Init, "cuInit");
    FIND(retain_fn, DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    FIND(current_fn, CtxSetCurrent, "cuCtxSetCurrent");
    FIND(alloc_fn, MemAlloc, "cuMemAlloc_v2");
    FIND(free_fn, MemFree, "cuMemFree_v2");
    return !Init(0) && !DevicePrimaryCtxRetain(&context, 0) && !CtxSetCurrent(context) &&
           !MemAlloc(&block, 1 << 20) && block && !MemFree(block);
}

static int by_dlsym(void) {
    return use();
}

/* The driver's names have no versions, so dlvsym finds none of them; those of libc have some. */
static int by_version(void) {
#ifdef __x86_64__
    static const char first[] = "GLIBC_2.2.5";
#else
    static const char first[] = "GLIBC_2.17";
#endif
    return dlvsym(RTLD_NEXT, "malloc", first) && !dlvsym(RTLD_NEXT, "malloc", "GLIBC_1") &&
           !dlvsym(driver, "cuInit", "libcuda.so.1") && !dlvsym(driver, "nvmlInit", first) && use();
}

/* A second driver, in a namespace of its own. */
static int by_dlmopen(void) {
    driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    return driver && use();
}

/* After the first driver. */
static int by_both(void) {
    return use() && by_dlmopen();
}

static int counted(void);

/* A second driver, from another file. */
static int by_copy(void) {
    driver = dlopen("./copy/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver && use();
}

/* The driver is closed and opened again, with or without a call in between. */
static int by_opening_again(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    FIND(init_fn, Init, "cuInit");
    int is_ok = !Init(0) && !dlclose(driver);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    return is_ok && driver && use();
}

static int by_looking_twice(void) {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    int is_ok = driver && dlsym(driver, "cuInit") && !dlclose(driver);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    return is_ok && driver && use();
}

/* The program's environment is its own. */
static int without_environment(void) {
    return !clearenv() && use();
}

/* Another file has the number of stderr. */
static int without_stderr(void) {
    int is_ok = !close(STDERR_FILENO) && open("own", O_WRONLY | O_CREAT | O_TRUNC, 0600) == 2;
    return is_ok && write(STDERR_FILENO, "own\n", 4) == 4 && counted();
}

static int init_fails(void) {
    FIND(init_fn, Init, "cuInit");
    return Init(0) != 0;
}

static void on_alarm(int number) {
    (void)number;
    exit(7); /* as programs do, although exit may not be called here */
}

/* A signal handler that exits, at any moment of the ledger. */
static int in_signal(void) {
    const struct itimerval soon = {.it_value = {.tv_usec = 1000 + (int)(getpid() % 97) * 53}};
    address_t block;
    if (!use())
        return 0;
    FIND(alloc_fn, MemAlloc, "cuMemAlloc_v2");
    FIND(free_fn, MemFree, "cuMemFree_v2");
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &soon, NULL);
    for (;;)
        if (!MemAlloc(&block, 4096))
            (void)MemFree(block);
}

/* A signal handler that exits, inside a call of the driver. */
static int in_call(void) {
    FIND(alloc_fn, MemAlloc, "cuMemAlloc_v2");
    if (!use())
        return 0;
    signal(SIGSEGV, on_alarm);
    return MemAlloc((address_t *)16, 4096) == 0;
}

/* A plug-in that finds the driver itself, and the C library's dlsym before any other. */
static int in_plugin(void) {
    void *plugin = dlopen("libdeep_plugin.so", RTLD_NOW | RTLD_DEEPBIND);
    void *found = plugin ? dlsym(plugin, "deep_use") : NULL;
    int (*deep_use)(void);
    memcpy(&deep_use, &found, sizeof found);
    return found && deep_use();
}

static int by_four(void) {
    void *found = dlsym(driver, "cuGetProcAddress");
    memcpy(&find4, &found, sizeof find4);
    return find4 && use();
}

static int by_five(void) {
    void *found = dlsym(driver, "cuGetProcAddress_v2");
    memcpy(&find5, &found, sizeof find5);
    return find5 && use();
}

/* libcudart asks cuGetProcAddress for itself. */
static int by_itself(void) {
    void *found = dlsym(driver, "cuGetProcAddress_v2"), *again = NULL;
    int status = 0;
    memcpy(&find5, &found, sizeof find5);
    if (!find5 || find5("cuGetProcAddress", &again, 12000, 0, &status) || !again)
        return 0;
    memcpy(&find5, &again, sizeof find5);
    return use();
}

static int in_thread_result;
static void *in_thread_main(void *nothing) {
    in_thread_result = use();
    return nothing;
}
static int in_thread(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, in_thread_main, NULL) == 0 &&
           pthread_join(thread, NULL) == 0 && in_thread_result;
}

/* A child may use CUDA if its parent has not. */
static int in_child(void) {
    int status = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(!use());
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* A look-up that is none of the driver's: the next malloc after this program, that of libc. */
static int by_next(void) {
    return dlsym(RTLD_NEXT, "malloc") != NULL && dlsym(RTLD_NEXT, "cudaMalloc") == NULL && use();
}

/* Functions that the shim counts: their parameters reach the driver. */
static int counted(void) {
    enum { HEAP_LIMIT = 2, TIMES = 12 };
    size_t bytes = 0;
    if (!use())
        return 0;
    FIND(set_limit_fn, CtxSetLimit, "cuCtxSetLimit");
    FIND(get_limit_fn, CtxGetLimit, "cuCtxGetLimit");
    for (size_t i = 1; i <= TIMES; i++) {
        if (CtxSetLimit(HEAP_LIMIT, i << 22) || CtxGetLimit(&bytes, HEAP_LIMIT) || bytes != i << 22)
            return 0;
    }
    return 1;
}

/* The stand-in has no arrays: the hook passes its answer on. */
static int array(void) {
    enum { NOT_SUPPORTED = 801 };
    struct {
        size_t width, height;
        unsigned format, channels;
    } wanted = {64, 64, 1, 1};
    void *handle = NULL;
    if (!use())
        return 0;
    FIND(array_fn, ArrayCreate, "cuArrayCreate_v2");
    return ArrayCreate(&handle, &wanted) == NOT_SUPPORTED && !handle;
}

/* Through a library with the name of one of NVIDIA's: 3 MiB from one line of this program, 2 MiB
 * from another, and 1 MiB without it. Nothing is freed. */
static int through_library(void) {
    void *library = dlopen("libcublas_fake.so", RTLD_NOW);
    void *create = library ? dlsym(library, "fake_create") : NULL;
    void *one = library ? dlsym(library, "fake_one") : NULL;
    address_t blocks[3], block;
    create_fn fake_create;
    one_fn fake_one;
    if (!create || !one || !use())
        return 0;
    memcpy(&fake_create, &create, sizeof create);
    memcpy(&fake_one, &one, sizeof one);
    FIND(alloc_fn, MemAlloc, "cuMemAlloc_v2");
    int failed = fake_create(MemAlloc, blocks, 1 << 20);
    for (volatile int i = 0; i < 2; i++) /* one line in the machine code, too */
        failed |= fake_one(MemAlloc, &block, 1 << 20);
    return !failed && !MemAlloc(&block, 1 << 20);
}

/* A constructor waits for a thread that allocates. */
static int in_constructor(void) {
    void *library = use() ? dlopen("libcudnn_fake.so", RTLD_NOW) : NULL;
    const int *is_ok = library ? dlsym(library, "fake_is_ok") : NULL;
    return is_ok && *is_ok;
}

/* On a card of 64 MiB: 32 MiB of the program, 3 MiB of a library, 2 MiB in stream order. Then 48
 * MiB are refused, twice at one place and at six others. */
static int out_of_memory(void) {
    enum { OUT_OF_MEMORY = 2, MIB = 1 << 20 };
    void *library = dlopen("libcublas_fake.so", RTLD_NOW);
    void *create = library ? dlsym(library, "fake_create") : NULL, *pinned = NULL;
    address_t blocks[3], block;
    create_fn fake_create;
    (void)dlopen("libnvidia-ml.so.1", RTLD_NOW); /* some tests have one */
    if (!create || !use())
        return 0;
    memcpy(&fake_create, &create, sizeof create);
    FIND(alloc_fn, MemAlloc, "cuMemAlloc_v2");
    FIND(ordered_fn, MemAllocAsync, "cuMemAllocAsync");
    FIND(host_fn, MemAllocHost, "cuMemAllocHost_v2");
    if (MemAlloc(&block, 32 * MIB) || fake_create(MemAlloc, blocks, MIB) ||
        MemAllocAsync(&block, 2 * MIB, NULL) || MemAllocHost(&pinned, 5 * MIB))
        return 0;
    for (volatile int i = 0; i < 2; i++) {
        if (MemAlloc(&block, 48 * MIB) != OUT_OF_MEMORY)
            return 0;
    }
    return MemAlloc(&block, 40 * MIB) == OUT_OF_MEMORY &&
           MemAlloc(&block, 41 * MIB) == OUT_OF_MEMORY &&
           MemAlloc(&block, 42 * MIB) == OUT_OF_MEMORY &&
           MemAlloc(&block, 43 * MIB) == OUT_OF_MEMORY &&
           MemAlloc(&block, 44 * MIB) == OUT_OF_MEMORY &&
           MemAlloc(&block, 45 * MIB) == OUT_OF_MEMORY;
}

/* A call with a hook, whose memory is not recorded. */
static int module(void) {
    void *loaded = NULL;
    if (!use())
        return 0;
    FIND(array_fn, ModuleLoadData, "cuModuleLoadData");
    return ModuleLoadData(&loaded, "no module") != 0;
}

static int counted_by_five(void) {
    void *found = dlsym(driver, "cuGetProcAddress_v2");
    memcpy(&find5, &found, sizeof find5);
    return find5 && counted();
}

/* The report then comes from the tool. */
static int counted_killed(void) {
    return counted() && raise(SIGKILL);
}

static int by_nothing(void) {
    int is_ok = dlsym(driver, "cuNoSuchFunction") == NULL && dlerror() != NULL;
    /* One function with a hook, and one without. */
    return is_ok && dlsym(RTLD_DEFAULT, "cuInit") && dlsym(RTLD_DEFAULT, "cuMemsetD8_v2") &&
           dlerror() == NULL;
}

enum { NOT_OPENED = -1 };

int main(int count, char **ways) {
    static const struct {
        const char *name;
        int (*run)(void);
        int flags; /* of dlopen, or NOT_OPENED */
    } rows[] = {{"dlsym", by_dlsym, RTLD_LOCAL},
                {"dlvsym", by_version, RTLD_LOCAL},
                {"dlmopen", by_dlmopen, NOT_OPENED},
                {"both", by_both, RTLD_LOCAL},
                {"plugin", in_plugin, NOT_OPENED},
                {"four", by_four, RTLD_LOCAL},
                {"five", by_five, RTLD_LOCAL},
                {"itself", by_itself, RTLD_LOCAL},
                {"thread", in_thread, RTLD_LOCAL},
                {"child", in_child, RTLD_LOCAL},
                {"next", by_next, RTLD_LOCAL},
                {"array", array, RTLD_LOCAL},
                {"constructor", in_constructor, RTLD_LOCAL},
                {"oom", out_of_memory, RTLD_LOCAL},
                {"library", through_library, RTLD_LOCAL},
                {"module", module, RTLD_LOCAL},
                {"counted", counted, RTLD_LOCAL},
                {"counted-five", counted_by_five, RTLD_LOCAL},
                {"counted-killed", counted_killed, RTLD_LOCAL},
                {"copy", by_copy, RTLD_LOCAL},
                {"again", by_opening_again, NOT_OPENED},
                {"twice", by_looking_twice, NOT_OPENED},
                {"environment", without_environment, RTLD_LOCAL},
                {"stderr", without_stderr, RTLD_LOCAL},
                {"init-fails", init_fails, RTLD_LOCAL},
                {"signal", in_signal, RTLD_LOCAL},
                {"signal-in-call", in_call, RTLD_LOCAL},
                {"nothing", by_nothing, RTLD_GLOBAL}};
    int failed = 0;
    for (int i = 1; i < count; i++) {
        int is_ok = 0;
        for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
            if (strcmp(ways[i], rows[k].name) != 0)
                continue;
            find4 = NULL;
            find5 = NULL;
            driver = NULL;
            if (rows[k].flags != NOT_OPENED)
                driver = dlopen("libcuda.so.1", RTLD_NOW | rows[k].flags);
            is_ok = (driver || rows[k].flags == NOT_OPENED) && rows[k].run();
        }
        printf("%s: %s\n", ways[i], is_ok ? "ok" : "failed");
        failed |= !is_ok;
    }
    return failed;
}

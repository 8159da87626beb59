/* A program for tests/cli/test_cli_limit.sh, which runs it under `acre run --limit`: runs the case
 * named by its first argument. Exit status 9 after a failed check, which it prints. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "elf_find.h"
#include "limit_file.h"

static const size_t MIB = (size_t)1 << 20;

static struct limit_file *file; /* of the limit */
static const char *self;        /* path of this program */

/* ---- helpers ---- */

static void need(int is_ok, const char *what, int line) {
    if (!is_ok) {
        printf("line %d: %s\n", line, what);
        exit(9);
    }
}
#define NEED(what) need((what), #what, __LINE__)
#define OK(call) need((call) == CUDA_SUCCESS, #call, __LINE__)
#define NO_MEMORY(call) need((call) == CUDA_ERROR_OUT_OF_MEMORY, #call " is refused", __LINE__)
#define INVALID(call) need((call) == CUDA_ERROR_INVALID_VALUE, #call " is invalid", __LINE__)
#define USED(bytes) need(used() == (bytes), "used is " #bytes, __LINE__)

static void open_file(void) {
    long tool = 0, fd = 0;
    char path[64];
    const char *words = getenv("ACRE_RUN"), *word = words ? strstr(words, ",limit=") : NULL;
    NEED(word && sscanf(word, ",limit=%ld/%ld", &tool, &fd) == 2);
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", tool, fd);
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    NEED(descriptor >= 0);
    file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    NEED(file != MAP_FAILED && file->magic == LIMIT_MAGIC);
    close(descriptor);
}

static uint64_t used(void) {
    return atomic_load(&file->used);
}
static uint64_t limit(void) {
    return atomic_load(&file->limit);
}

static CUdevice enter(void) {
    CUdevice device;
    CUcontext context;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
    return device;
}

static const CUmemAllocationProp *device_prop(void) {
    static CUmemAllocationProp prop;
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return &prop;
}

/* ---- every way to get memory ---- */

static void do_plain(void) {
    CUdeviceptr a, b, c;
    size_t pitch;
    enter();
    OK(cuMemAlloc(&a, 1000));
    USED(1000);
    OK(cuMemAllocManaged(&b, MIB, CU_MEM_ATTACH_GLOBAL));
    USED(1000 + MIB);
    OK(cuMemAllocPitch(&c, &pitch, 100, 10, 4));
    USED(1000 + MIB + pitch * 10);
    OK(cuMemFree(c));
    OK(cuMemFree(b));
    USED(1000);
    NEED(cuMemFree(a + 8) != CUDA_SUCCESS);
    USED(1000);
    OK(cuMemFree(a));
    USED(0);
    NEED(cuMemFree(a) != CUDA_SUCCESS);
    USED(0);
}

/* The stand-in has no arrays: one that the limit allows is refused there, and refunded. */
static void do_arrays(void) {
    enum { FLOATS = 0x20 };
    struct {
        size_t width, height;
        unsigned format, channels;
    } small = {1024, 1024, FLOATS, 4}, large = {4096, 4097, FLOATS, 1};
    CUresult (*create)(void **, const void *);
    void *handle = NULL, *found = dlsym(RTLD_DEFAULT, "cuArrayCreate_v2");
    NEED(found != NULL);
    memcpy(&create, &found, sizeof create);
    NEED(create(&handle, &large) != CUDA_ERROR_OUT_OF_MEMORY); /* no context */
    enter();
    NO_MEMORY(create(&handle, &large));
    USED(0);
    NEED(create(&handle, &small) == CUDA_ERROR_NOT_SUPPORTED);
    USED(0);
    /* An array that fails without a context gives nothing back. */
    CUdeviceptr block;
    OK(cuMemAlloc(&block, 40 * MIB));
    OK(cuCtxSetCurrent(NULL));
    NEED(create(&handle, &small) != CUDA_SUCCESS);
    USED(40 * MIB);
}

static void do_chunks(void) {
    CUmemGenericAllocationHandle one, two, again;
    CUdeviceptr at;
    size_t bytes = 2 * MIB;
    enter();
    OK(cuMemCreate(&one, bytes, device_prop(), 0));
    OK(cuMemCreate(&two, bytes, device_prop(), 0));
    USED(2 * bytes);
    OK(cuMemAddressReserve(&at, 4 * bytes, 0, 0, 0));
    OK(cuMemMap(at, bytes, 0, one, 0));
    OK(cuMemMap(at + bytes, bytes, 0, two, 0));
    OK(cuMemMap(at + 2 * bytes, bytes, 0, two, 0));
    OK(cuMemRelease(one));
    OK(cuMemRelease(two));
    USED(2 * bytes);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at));
    OK(cuMemUnmap(at, 2 * bytes)); /* both */
    USED(2 * bytes);
    OK(cuMemUnmap(at + 2 * bytes, bytes));
    USED(bytes);
    OK(cuMemRelease(again));
    USED(0);
    OK(cuMemAddressFree(at, 4 * bytes));
}

static void do_import(void) {
    CUmemGenericAllocationHandle own, imported;
    CUdeviceptr at;
    int fd = -1;
    size_t bytes = 2 * MIB;
    enter();
    OK(cuMemCreate(&own, bytes, device_prop(), 0));
    OK(cuMemExportToShareableHandle(&fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cuMemAddressReserve(&at, 2 * bytes, 0, 0, 0));
    OK(cuMemMap(at, bytes, 0, imported, 0));
    OK(cuMemMap(at + bytes, bytes, 0, imported, 0));
    uint64_t both = imported == own ? bytes : 2 * bytes;
    USED(both);
    OK(cuMemUnmap(at, 2 * bytes));
    OK(cuMemRelease(imported));
    USED(bytes);
    OK(cuMemRelease(own));
    USED(0);
    close(fd);
    OK(cuMemAddressFree(at, 2 * bytes));
}

static uint64_t reserved(CUmemoryPool pool) {
    uint64_t bytes = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

static void do_pools(void) {
    CUdevice device = enter();
    CUmemoryPool pool, own;
    CUdeviceptr a, b;
    CUmemPoolProps props = {0};
    uint64_t keep = UINT64_MAX;
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&a, 1000, NULL));
    NEED(reserved(pool) > 0);
    USED(reserved(pool));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuStreamSynchronize(NULL));
    USED(reserved(pool));
    NEED(used() > 0);
    /* Idle memory of a pool is released when another request needs it. */
    OK(cuMemAlloc(&b, limit()));
    USED(limit());
    NO_MEMORY(cuMemAllocAsync(&a, 1000, NULL));
    OK(cuMemFree(b));
    OK(cuMemAllocAsync(&a, 1000, NULL));
    OK(cuMemFreeAsync(a, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolTrimTo(pool, 0));
    USED(0);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemPoolCreate(&own, &props));
    OK(cuMemAllocFromPoolAsync(&a, limit() / 2, own, NULL));
    USED(reserved(own));
    NO_MEMORY(cuMemAllocFromPoolAsync(&b, limit(), own, NULL));
    OK(cuMemPoolDestroy(own));
    NEED(used() >= limit() / 2); /* the block keeps the pool */
    OK(cuMemFree(a));
    USED(0);
}

/* A pool grows although it has enough idle memory, in pieces. The limit is 8 MiB here. */
static void do_pieces(void) {
    enum { PIECES = 8 };
    CUdeviceptr pieces[PIECES], large;
    CUmemoryPool pool;
    uint64_t keep = UINT64_MAX;
    OK(cuDeviceGetDefaultMemPool(&pool, enter()));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    for (int i = 0; i < PIECES; i++)
        OK(cuMemAllocAsync(&pieces[i], MIB, NULL));
    USED(limit());
    for (int i = 0; i < PIECES; i += 2)
        OK(cuMemFreeAsync(pieces[i], NULL));
    OK(cuStreamSynchronize(NULL));
    USED(limit());
    NO_MEMORY(cuMemAllocAsync(&large, 4 * MIB, NULL)); /* nothing can be released */
    NEED(used() <= limit());
    for (int i = 1; i < PIECES / 2; i += 2)
        OK(cuMemFreeAsync(pieces[i], NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemAllocAsync(&large, 4 * MIB, NULL)); /* now half of the pool */
    USED(limit());
    USED(reserved(pool));
    OK(cuMemFreeAsync(large, NULL));
    for (int i = PIECES / 2 + 1; i < PIECES; i += 2)
        OK(cuMemFreeAsync(pieces[i], NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemPoolTrimTo(pool, 0));
    USED(0);
}

static void do_contexts(void) {
    CUdevice device = enter();
    CUdeviceptr a;
    CUmemGenericAllocationHandle chunk;
    CUmemoryPool pool;
    CUmemPoolProps props = {0};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemAlloc(&a, MIB));
    OK(cuMemCreate(&chunk, 2 * MIB, device_prop(), 0));
    USED(3 * MIB);
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&a, MIB, pool, NULL));
    NEED(used() > 3 * MIB);
    OK(cuDevicePrimaryCtxReset(device));
    USED(2 * MIB); /* belongs to no context */
    OK(cuMemRelease(chunk));
    USED(0);
}

/* ---- the limit ---- */

static void do_fill(void) {
    CUdevice device = enter();
    CUdeviceptr a, b;
    size_t left, total, pitch;
    CUmemGenericAllocationHandle chunk;
    OK(cuMemGetInfo(&left, &total));
    NEED(total == limit() && left == limit());
    OK(cuDeviceTotalMem(&total, device));
    NEED(total == limit());
    OK(cuMemAlloc(&a, limit() - 2 * MIB));
    OK(cuMemCreate(&chunk, 2 * MIB, device_prop(), 0));
    USED(limit());
    OK(cuMemGetInfo(&left, &total));
    NEED(left == 0 && total == limit());
    NO_MEMORY(cuMemAlloc(&b, 1));
    NO_MEMORY(cuMemAllocManaged(&b, 1, CU_MEM_ATTACH_GLOBAL));
    NO_MEMORY(cuMemAllocPitch(&b, &pitch, 1, 1, 4));
    NO_MEMORY(cuMemAllocAsync(&b, 1, NULL));
    NO_MEMORY(cuMemCreate(&chunk, 2 * MIB, device_prop(), 0));
    OK(cuMemFree(a));
    USED(2 * MIB);
    NO_MEMORY(cuMemAlloc(&a, limit() - 2 * MIB + 1));
    OK(cuMemAlloc(&a, limit() - 2 * MIB));
}

/* Errors stay the driver's own, although the limit is reached. */
static void do_arguments(void) {
    CUdeviceptr a, b;
    size_t left, total, pitch;
    CUmemGenericAllocationHandle chunk;
    OK(cuInit(0));
    NEED(cuMemAlloc(&a, 4 * limit()) == CUDA_ERROR_INVALID_CONTEXT);
    enter();
    OK(cuMemAlloc(&a, limit()));
    INVALID(cuMemAlloc(&b, 0));
    INVALID(cuMemAlloc(NULL, 4096));
    INVALID(cuMemAllocManaged(&b, 0, CU_MEM_ATTACH_GLOBAL));
    INVALID(cuMemAllocManaged(&b, 4096, 77));
    INVALID(cuMemAllocPitch(&b, &pitch, 100, 10, 3));
    INVALID(cuMemAllocPitch(&b, NULL, 100, 10, 4));
    INVALID(cuMemAllocAsync(NULL, 4096, NULL));
    INVALID(cuMemCreate(&chunk, 4097, device_prop(), 0));
    INVALID(cuMemCreate(&chunk, 2 * MIB, NULL, 0));
    INVALID(cuMemCreate(NULL, 2 * MIB, device_prop(), 0));
    OK(cuMemGetInfo(&left, NULL));
    NEED(left == 0);
    OK(cuMemGetInfo(NULL, &total));
    NEED(total == limit());
    OK(cuMemGetInfo(NULL, NULL));
    INVALID(cuDeviceTotalMem(NULL, 0));
    USED(limit());
    OK(cuMemFree(a));
    USED(0);
}

/* ---- processes ---- */

/* Starts this program with another case. */
static pid_t start(const char *name, const char *argument) {
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, name, argument, (char *)NULL);
        _exit(9);
    }
    NEED(child > 0);
    return child;
}

static void join(pid_t child) {
    int status = 0;
    NEED(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child that was forked without exec has nothing charged; nor has a program after exec. */
static void do_fork_exec(void) {
    CUdeviceptr a;
    pid_t early = fork();
    if (early == 0) {
        enter();
        OK(cuMemAlloc(&a, limit() / 2));
        _exit(0);
    }
    join(early);
    enter();
    OK(cuMemAlloc(&a, limit() / 2));
    pid_t late = fork();
    if (late == 0)
        _exit(0);
    join(late);
    OK(cuMemFree(a));
    OK(cuMemAlloc(&a, limit()));
    execl(self, self, "fill", (char *)NULL);
}

static void do_slots(void) {
    CUdeviceptr a;
    for (int i = 0; i < LIMIT_SLOTS; i++) {
        atomic_store(&file->slots[i].start, UINT64_MAX);
        atomic_store(&file->slots[i].pid, getppid());
    }
    enter();
    NO_MEMORY(cuMemAlloc(&a, 1));
    NO_MEMORY(cuMemAlloc(&a, 1));
}

/* A process dies while it holds the lock, and has changed one of two sums. */
static void do_owner(void) {
    pid_t child = fork();
    if (child == 0) {
        enter();
        CUdeviceptr a;
        OK(cuMemAlloc(&a, MIB));
        NEED(!pthread_mutex_lock(&file->lock));
        atomic_store(&file->used, 123 * MIB);
        kill(getpid(), SIGKILL);
    }
    NEED(waitpid(child, NULL, 0) == child);
    do_fill();
}

/* ---- NVML ---- */

enum { NVML_TOTAL, NVML_FREE, NVML_USED };
typedef int (*nvml_memory)(void *, unsigned long long *);

static nvml_memory nvml_find(void *library, const char *name) {
    nvml_memory function;
    void *found = dlsym(library, name);
    NEED(found != NULL);
    memcpy(&function, &found, sizeof function);
    return function;
}

static void do_nvml(void) {
    const unsigned long long gib = 1ull << 30;
    unsigned long long now[3], more[5] = {0};
    CUuuid uuid;
    CUdeviceptr block;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *one = (void *)1, *two = (void *)2;
    NEED(library != NULL);
    nvml_memory get = nvml_find(library, "nvmlDeviceGetMemoryInfo");
    nvml_memory get_v2 = nvml_find(library, "nvmlDeviceGetMemoryInfo_v2");
    char *name = dlsym(library, "fake_nvml_uuid");
    NEED(name != NULL);
    NEED(!get(two, now) && now[NVML_TOTAL] == limit() && now[NVML_FREE] == limit());
    CUdevice device = enter();
    OK(cuDeviceGetUuid(&uuid, device));
    name += sprintf(name, "GPU-");
    for (int i = 0; i < 16; i++)
        name += sprintf(name, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        (unsigned)(unsigned char)uuid.bytes[i]);
    OK(cuMemAlloc(&block, MIB));
    NEED(!get(one, now) && now[NVML_TOTAL] == limit() && now[NVML_FREE] == limit() - MIB &&
         now[NVML_USED] == MIB);
    NEED(!get_v2(one, more) && more[1] == limit() && more[3] == limit() - MIB &&
         more[2] + more[4] == MIB);
    /* The program does not use this one. */
    NEED(!get(two, now) && now[NVML_TOTAL] == 80 * gib && now[NVML_FREE] == 79 * gib);
}

static void do_each(void) {
    CUdeviceptr a;
    enter();
    OK(cuMemAlloc(&a, limit()));
    NO_MEMORY(cuMemAlloc(&a, 1));
    join(start("each-other", NULL));
    USED(2 * limit()); /* the other's slot is freed when somebody needs it */
    size_t left = 1;
    OK(cuMemGetInfo(&left, NULL));
    NEED(left == 0);
    USED(limit());
}

static void do_each_other(void) {
    CUdeviceptr a;
    enter();
    OK(cuMemAlloc(&a, limit()));
    NO_MEMORY(cuMemAlloc(&a, 1));
}

/* ---- races ---- */

/* acre's pool holds idle memory, which counts until it is needed. */
static int is_served(void) {
    const char *words = getenv("ACRE_RUN");
    return words && strstr(words, ",serve") != NULL;
}

/* After everything was freed, the whole limit can be allocated. */
static void all_is_free(void) {
    CUdeviceptr all;
    if (!is_served())
        USED(0);
    enter();
    OK(cuMemAlloc(&all, limit()));
    OK(cuMemFree(all));
}

enum { RACE_PROCESSES = 4, RACE_THREADS = 16, RACE_ROUNDS = 300, RACE_KILLS = 12 };

static void race_pool(unsigned *seed) {
    CUdeviceptr block;
    CUresult result = cuMemAllocAsync(&block, 1 + (size_t)rand_r(seed) % (4 * MIB), NULL);
    NEED(!result || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (!result)
        OK(cuMemFreeAsync(block, NULL));
}

static void race_chunk(unsigned *seed) {
    CUmemGenericAllocationHandle chunk;
    size_t bytes = 2 * MIB * (1 + (size_t)rand_r(seed) % 8);
    CUresult result = cuMemCreate(&chunk, bytes, device_prop(), 0);
    NEED(!result || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (!result)
        OK(cuMemRelease(chunk));
}

static void race_plain(unsigned *seed) {
    CUdeviceptr block;
    size_t bytes = 1 + (size_t)rand_r(seed) % (rand_r(seed) % 2 ? 4096 : 24 * MIB);
    CUresult result = cuMemAlloc(&block, bytes);
    NEED(!result || result == CUDA_ERROR_OUT_OF_MEMORY);
    if (!result)
        OK(cuMemFree(block));
}

static _Atomic int race_is_endless;

static void *race_thread(void *number) {
    unsigned seed = (unsigned)(uintptr_t)number;
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    for (int i = 0; i < RACE_ROUNDS || atomic_load(&race_is_endless); i++) {
        switch (rand_r(&seed) % 4) {
        case 0:
            race_pool(&seed);
            break;
        case 1:
            race_chunk(&seed);
            break;
        default:
            race_plain(&seed);
        }
    }
    return NULL;
}

static void do_race_child(unsigned seed) {
    pthread_t threads[RACE_THREADS];
    CUmemoryPool pool;
    CUdevice device = enter();
    for (uintptr_t i = 0; i < RACE_THREADS; i++)
        NEED(!pthread_create(&threads[i], NULL, race_thread, (void *)(seed * 1000 + i)));
    for (int i = 0; i < RACE_THREADS; i++)
        NEED(!pthread_join(threads[i], NULL));
    OK(cuCtxSynchronize());
    OK(cuDeviceGetDefaultMemPool(&pool, device));
    OK(cuMemPoolTrimTo(pool, 0));
    int64_t own = getpid();
    for (int i = 0; i < LIMIT_SLOTS && !is_served(); i++) {
        if (atomic_load(&file->slots[i].pid) == own)
            NEED(atomic_load(&file->slots[i].used) == 0);
    }
}

/* Reads the account all the time. */
static _Atomic int check_is_over;
static _Atomic uint64_t check_most, check_count;
static void *check_thread(void *nothing) {
    while (!atomic_load(&check_is_over)) {
        uint64_t now = used();
        if (now > atomic_load(&check_most))
            atomic_store(&check_most, now);
        atomic_fetch_add(&check_count, 1);
    }
    return nothing;
}

static void check_end(pthread_t checker) {
    atomic_store(&check_is_over, 1);
    NEED(!pthread_join(checker, NULL));
    printf("checked: at most %llu of %llu\n", (unsigned long long)atomic_load(&check_most),
           (unsigned long long)limit());
    NEED(check_count > 1000);
    NEED(check_most > 0 && check_most <= limit());
}

static void do_race(void) {
    pthread_t checker;
    pid_t children[RACE_PROCESSES];
    NEED(!pthread_create(&checker, NULL, check_thread, NULL));
    for (int i = 0; i < RACE_PROCESSES; i++) {
        char seed[16];
        snprintf(seed, sizeof seed, "%d", i + 1);
        children[i] = start("race-child", seed);
    }
    for (int i = 0; i < RACE_PROCESSES; i++)
        join(children[i]);
    check_end(checker);
    all_is_free();
}

static void wait_for_slot(pid_t child) {
    for (int i = 0;; i = (i + 1) % LIMIT_SLOTS) {
        if (atomic_load(&file->slots[i].pid) == child)
            return;
        if (i == 0)
            usleep(1000);
    }
}

/* Kills processes at random times, in the middle of anything. */
static void do_kill(void) {
    pthread_t checker;
    unsigned seed = (unsigned)getpid();
    printf("seed %u\n", seed);
    NEED(!pthread_create(&checker, NULL, check_thread, NULL));
    pid_t children[2] = {start("race-endless", "1"), start("race-endless", "2")};
    for (int i = 0; i < RACE_KILLS; i++) {
        int which = i % 2;
        wait_for_slot(children[which]); /* it uses CUDA */
        usleep((useconds_t)(20000 + rand_r(&seed) % 100000));
        NEED(kill(children[which], SIGKILL) == 0);
        NEED(waitpid(children[which], NULL, 0) == children[which]);
        children[which] = start("race-endless", "3");
    }
    while (atomic_load(&check_most) == 0)
        usleep(1000);
    for (int i = 0; i < 2; i++) { /* the second child stays a zombie */
        siginfo_t info;
        NEED(kill(children[i], SIGKILL) == 0);
        NEED(waitid(P_PID, (id_t)children[i], &info, WEXITED | (i ? WNOWAIT : 0)) == 0);
    }
    check_end(checker);
    if (is_served())
        all_is_free();
    else
        do_fill();
}

/* ---- what the driver says ---- */

/* The driver's own functions: the program's calls show the limit. */
static int driver_look(struct dl_phdr_info *info, size_t bytes, void *found) {
    struct link_map map = {.l_addr = info->dlpi_addr};
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            map.l_ld = (ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (!map.l_ld || !acre__elf_has_soname(&map, "libcuda.so.1"))
        return 0;
    void *function = acre__elf_find(&map, "cuMemGetInfo_v2");
    memcpy(found, &function, sizeof function);
    return function != NULL;
}

static uint64_t driver_used(void) {
    static CUresult (*info)(size_t *, size_t *);
    size_t left = 0, total = 0;
    if (!info)
        NEED(dl_iterate_phdr(driver_look, &info));
    OK(info(&left, &total));
    return total - left;
}

static _Atomic uint64_t driver_most;
static void *driver_watch(void *nothing) {
    enter();
    while (!atomic_load(&check_is_over)) {
        uint64_t now = driver_used();
        if (now > atomic_load(&driver_most))
            atomic_store(&driver_most, now);
    }
    return nothing;
}

enum { ASYNC_THREADS = 16, ASYNC_ROUNDS = 400, ASYNC_LIVE = 8 };

static void *async_thread(void *number) {
    unsigned seed = (unsigned)(uintptr_t)number + 1;
    CUdeviceptr live[ASYNC_LIVE] = {0};
    CUstream stream;
    enter();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ASYNC_ROUNDS + ASYNC_LIVE; i++) {
        CUdeviceptr *block = &live[i < ASYNC_ROUNDS ? rand_r(&seed) % ASYNC_LIVE : i % ASYNC_LIVE];
        if (*block) {
            OK(cuMemFreeAsync(*block, stream));
            *block = 0;
        } else if (i < ASYNC_ROUNDS) {
            CUresult result = cuMemAllocAsync(block, 3 * MIB - 1, stream);
            NEED(!result || result == CUDA_ERROR_OUT_OF_MEMORY);
            *block = result ? 0 : *block;
        }
    }
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy(stream));
    return NULL;
}

/* Threads that allocate from one pool beyond the limit. Others' frees are in flight, so the pool
 * grows although it has idle memory. */
static void do_async(void) {
    pthread_t threads[ASYNC_THREADS], watcher;
    enter();
    NEED(!pthread_create(&watcher, NULL, driver_watch, NULL));
    for (uintptr_t i = 0; i < ASYNC_THREADS; i++)
        NEED(!pthread_create(&threads[i], NULL, async_thread, (void *)i));
    for (int i = 0; i < ASYNC_THREADS; i++)
        NEED(!pthread_join(threads[i], NULL));
    atomic_store(&check_is_over, 1);
    NEED(!pthread_join(watcher, NULL));
    printf("the driver used at most %llu of %llu\n", (unsigned long long)atomic_load(&driver_most),
           (unsigned long long)limit());
    NEED(driver_most > limit() / 2 && driver_most <= limit());
}

/* A process that is stopped may hold the lock of the file. Programs that use no CUDA do not notice.
 */
static void do_locked(void) {
    NEED(!pthread_mutex_lock(&file->lock));
    NEED(system("timeout 100 true") == 0);
    NEED(!pthread_mutex_unlock(&file->lock));
}

/* ---- a program that a script controls ---- */

/* Lines on standard input: alloc BYTES, free, info, wait (for a change of the limit). */
static void do_shell(void) {
    CUdeviceptr blocks[64] = {0};
    size_t left, total, count = 0;
    unsigned long long bytes = 0;
    char line[64];
    enter();
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "alloc %llu", &bytes) == 1) {
            CUresult result = cuMemAlloc(&blocks[count], bytes);
            count += !result;
            printf("alloc %d\n", (int)result);
        } else if (strcmp(line, "free\n") == 0) {
            OK(cuMemFree(blocks[--count]));
            printf("free\n");
        } else if (strcmp(line, "info\n") == 0) {
            OK(cuMemGetInfo(&left, &total));
            printf("info %zu %zu\n", left, total);
        }
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } rows[] = {{"plain", do_plain},         {"chunks", do_chunks},
                {"arrays", do_arrays},       {"import", do_import},
                {"pools", do_pools},         {"pieces", do_pieces},
                {"fill", do_fill},           {"contexts", do_contexts},
                {"arguments", do_arguments}, {"slots", do_slots},
                {"fork-exec", do_fork_exec}, {"each", do_each},
                {"race", do_race},           {"each-other", do_each_other},
                {"owner", do_owner},         {"nvml", do_nvml},
                {"kill", do_kill},           {"shell", do_shell},
                {"async", do_async},         {"locked", do_locked}};
    self = argv[0];
    open_file();
    if (argc > 2) {
        atomic_store(&race_is_endless, strcmp(argv[1], "race-endless") == 0);
        do_race_child((unsigned)atoi(argv[2]));
        return 0;
    }
    for (size_t i = 0; argc > 1 && i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(argv[1], rows[i].name) == 0) {
            rows[i].run();
            printf("%s: ok\n", argv[1]);
            return 0;
        }
    }
    return 64;
}

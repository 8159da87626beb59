/* A program that is linked with no library of CUDA: it asks for the driver when it runs, finds the
 * calls by name, in the form that its own headers know, and works in contexts of its own. Programs
 * do this that must start on machines without CUDA too; here that is said,
 * and the exit code is 77. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

/* The calls that are used, each with the version of CUDA that brought the form which cuda.h
 * declares. Asking for the newest is a mistake: since CUDA 13 the driver has a second
 * cuCtxSynchronize under that name, which takes a context, while the one in cuda.h takes
 * nothing. */
#define CALLS(X)                                                                                   \
    X(cuInit, 2000)                                                                                \
    X(cuGetErrorName, 6000)                                                                        \
    X(cuDriverGetVersion, 2020)                                                                    \
    X(cuDeviceGet, 2000)                                                                           \
    X(cuCtxCreate, 12050)                                                                          \
    X(cuCtxDestroy, 4000)                                                                          \
    X(cuCtxGetCurrent, 4000)                                                                       \
    X(cuCtxPopCurrent, 4000)                                                                       \
    X(cuCtxPushCurrent, 4000)                                                                      \
    X(cuCtxSynchronize, 2000)                                                                      \
    X(cuCtxGetLimit, 3010)                                                                         \
    X(cuCtxSetLimit, 3010)                                                                         \
    X(cuMemAlloc, 3020)                                                                            \
    X(cuMemFree, 3020)                                                                             \
    X(cuMemsetD32, 3020)                                                                           \
    X(cuMemcpyDtoH, 3020)                                                                          \
    X(cuPointerGetAttribute, 4000)

/* Their addresses. cuda.h gives some names a version, here as everywhere: what is written
 * cuda.cuMemAlloc is the member cuMemAlloc_v2, of that form's type. */
static struct {
#define CALLS_MEMBER(name, version) __typeof__(&name) name;
    CALLS(CALLS_MEMBER)
#undef CALLS_MEMBER
} cuda;

static int wrong_count;

static void check(CUresult result, const char *call, int line) {
    const char *name = NULL;

    if (result != CUDA_SUCCESS) {
        (void)cuda.cuGetErrorName(result, &name);
        fprintf(stderr, "line %d: %s: %s\n", line, call, name ? name : "an unknown error");
        exit(2);
    }
}
#define CHECK(call) check((call), #call, __LINE__)

static void expect(int is_so, const char *what) {
    printf("%s: %s\n", what, is_so ? "yes" : "NO");
    wrong_count += !is_so;
}

/* The entry for `name` as it was in that version, whatever newer ones the driver has under the
 * name; NULL if there is none. */
static void *find(__typeof__(&cuGetProcAddress) get, const char *name, int version) {
    CUdriverProcAddressQueryResult found;
    void *function = NULL;

    if (get(name, &function, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) != CUDA_SUCCESS ||
        found != CU_GET_PROC_ADDRESS_SUCCESS) {
        return NULL;
    }
    return function;
}

static int load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *address = NULL;
    __typeof__(&cuGetProcAddress) get;

    if (library != NULL) {
        address = dlsym(library, "cuGetProcAddress_v2");
    }
    if (address == NULL) {
        return 0;
    }
    memcpy(&get, &address, sizeof get); /* C has no cast from data to functions */
    expect(find(get, "cuNoSuchCall", CUDA_VERSION) == NULL, "what is not there is not found");
#define CALLS_FIND(name, version)                                                                  \
    address = find(get, #name, version);                                                           \
    memcpy(&cuda.name, &address, sizeof address);                                                  \
    if (address == NULL) {                                                                         \
        fprintf(stderr, "the driver has no " #name "\n");                                          \
        return 0;                                                                                  \
    }
    CALLS(CALLS_FIND)
#undef CALLS_FIND
    return 1;
}

static CUcontext context_of(CUdeviceptr ptr) {
    CUcontext context = NULL;

    CHECK(cuda.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, ptr));
    return context;
}

/* Two contexts, each with memory and limits of its own. */
static void work(CUdevice device) {
    enum { COUNT = 1024 };
    static unsigned int back[COUNT];
    CUcontext first, second, current = NULL;
    CUdeviceptr of_first, of_second;
    size_t before = 0, limit = 0;

    CHECK(cuda.cuCtxCreate(&first, NULL, CU_CTX_SCHED_AUTO, device));
    CHECK(cuda.cuMemAlloc(&of_first, sizeof back));
    CHECK(cuda.cuCtxGetLimit(&before, CU_LIMIT_MALLOC_HEAP_SIZE));
    CHECK(cuda.cuCtxCreate(&second, NULL, CU_CTX_SCHED_AUTO, device));
    CHECK(cuda.cuMemAlloc(&of_second, sizeof back));
    CHECK(cuda.cuCtxGetCurrent(&current));
    expect(current == second && first != second, "a context is current when it is made");
    expect(context_of(of_first) == first && context_of(of_second) == second,
           "memory knows its context");

    CHECK(cuda.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * before));
    CHECK(cuda.cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
    expect(limit >= 2 * before, "a limit was set");
    /* Memory is used in the context that it belongs to. */
    CHECK(cuda.cuCtxPushCurrent(first));
    CHECK(cuda.cuMemsetD32(of_first, 0xABCD, COUNT));
    CHECK(cuda.cuCtxSynchronize());
    CHECK(cuda.cuMemcpyDtoH(back, of_first, sizeof back));
    expect(back[0] == 0xABCD && back[COUNT - 1] == 0xABCD, "its memory is used in a context");
    CHECK(cuda.cuCtxPopCurrent(&current));
    expect(current == first, "that one was pushed");

    /* Freed where it was made, and the context with nothing in it. */
    CHECK(cuda.cuMemFree(of_second));
    CHECK(cuda.cuCtxPopCurrent(&current));
    CHECK(cuda.cuCtxDestroy(second));
    CHECK(cuda.cuCtxGetCurrent(&current));
    expect(current == first, "the one before is current again");
    CHECK(cuda.cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
    expect(limit == before, "its limit is as it was");
    CHECK(cuda.cuMemFree(of_first));
    CHECK(cuda.cuCtxDestroy(first));
    CHECK(cuda.cuCtxGetCurrent(&current));
    expect(current == NULL, "none is current in the end");
    expect(cuda.cuMemAlloc(&of_first, 4096) == CUDA_ERROR_INVALID_CONTEXT,
           "without a context there is no memory");
}

int main(void) {
    CUdevice device;
    int version = 0;

    if (!load() || cuda.cuInit(0) != CUDA_SUCCESS) {
        fprintf(stderr, "there is no CUDA of version 13 here\n");
        return 77;
    }
    CHECK(cuda.cuDriverGetVersion(&version));
    expect(version >= CUDA_VERSION, "the driver is new enough");
    CHECK(cuda.cuDeviceGet(&device, 0));
    work(device);
    return wrong_count != 0;
}

/* A program that links no CUDA library. It loads the driver when it runs, finds the calls by name,
 * in the version that its own headers declare, and works in its own contexts. Programs do this if
 * they must also start on machines without CUDA. This one then prints a message and exits with
 * 77. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

/* The calls that the program uses, each with the version of CUDA that introduced the form that
 * cuda.h declares. Requesting the newest version is a bug: since CUDA 13 the driver has a second
 * cuCtxSynchronize under that name, which takes a context, while the one in cuda.h takes no
 * argument. */
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

/* The addresses of the calls. cuda.h replaces some names by versioned ones, here too:
 * cuda.cuMemAlloc is the member cuMemAlloc_v2, with the type of that form. */
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

/* Returns the entry point of `name` as of that version, even if the driver has newer ones under the
 * same name; NULL if there is none. */
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
    memcpy(&get, &address, sizeof get); /* C has no cast from data pointers to function pointers */
    expect(find(get, "cuNoSuchCall", CUDA_VERSION) == NULL, "an unknown call is not found");
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

/* Uses two contexts, each with its own memory and limits. */
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
    expect(current == second && first != second, "a new context is current");
    expect(context_of(of_first) == first && context_of(of_second) == second,
           "memory belongs to its context");

    CHECK(cuda.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * before));
    CHECK(cuda.cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
    expect(limit >= 2 * before, "a limit was set");
    /* Uses memory in the context that it belongs to. */
    CHECK(cuda.cuCtxPushCurrent(first));
    CHECK(cuda.cuMemsetD32(of_first, 0xABCD, COUNT));
    CHECK(cuda.cuCtxSynchronize());
    CHECK(cuda.cuMemcpyDtoH(back, of_first, sizeof back));
    expect(back[0] == 0xABCD && back[COUNT - 1] == 0xABCD, "memory is used in its context");
    CHECK(cuda.cuCtxPopCurrent(&current));
    expect(current == first, "the pushed context was popped");

    /* Frees memory in its own context, and destroys a context only when it is empty. */
    CHECK(cuda.cuMemFree(of_second));
    CHECK(cuda.cuCtxPopCurrent(&current));
    CHECK(cuda.cuCtxDestroy(second));
    CHECK(cuda.cuCtxGetCurrent(&current));
    expect(current == first, "the first context is current again");
    CHECK(cuda.cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE));
    expect(limit == before, "its limit is unchanged");
    CHECK(cuda.cuMemFree(of_first));
    CHECK(cuda.cuCtxDestroy(first));
    CHECK(cuda.cuCtxGetCurrent(&current));
    expect(current == NULL, "no context is current at the end");
    expect(cuda.cuMemAlloc(&of_first, 4096) == CUDA_ERROR_INVALID_CONTEXT,
           "an allocation without a context fails");
}

int main(void) {
    CUdevice device;
    int version = 0;

    if (!load() || cuda.cuInit(0) != CUDA_SUCCESS) {
        fprintf(stderr, "CUDA 13 is not available here\n");
        return 77;
    }
    CHECK(cuda.cuDriverGetVersion(&version));
    expect(version >= CUDA_VERSION, "the driver is new enough");
    CHECK(cuda.cuDeviceGet(&device, 0));
    work(device);
    return wrong_count != 0;
}

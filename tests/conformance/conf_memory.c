/*
 * Conformance: plain device memory, host memory allocated by the driver, registered host memory,
 * and managed memory (always small: far less than the device has free).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "conformance.h"

/* ---- plain ----------------------------------------------------------------------------------- */

static void plain_sizes(void) {
    CUdeviceptr ptr = 0;

    conf_code("zero", conf.drv->cuMemAlloc(&ptr, 0));
    conf_code("byte", conf.drv->cuMemAlloc(&ptr, 1));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("16-mib", conf.drv->cuMemAlloc(&ptr, 16 << 20));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("above-device", conf.drv->cuMemAlloc(&ptr, conf.device_bytes + (64 << 20)));
    conf_code("largest", conf.drv->cuMemAlloc(&ptr, ~(size_t)0));
    conf_code("after", conf.drv->cuMemAlloc(&ptr, 4096));
    conf_code("free", conf.drv->cuMemFree(ptr));
}

static void plain_frees(void) {
    CUdeviceptr ptr = 0;
    struct conf_range range;
    void *host = NULL;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 8192)) != 0)
        return;
    conf_code("null", conf.drv->cuMemFree(0));
    conf_code("interior", conf.drv->cuMemFree(ptr + 256));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("twice", conf.drv->cuMemFree(ptr));
    conf_code("foreign", conf.drv->cuMemFree((CUdeviceptr)(uintptr_t)&ptr));
    conf_code("low-address", conf.drv->cuMemFree(4096));
    if (conf_need("host", conf.drv->cuMemHostAlloc(&host, 4096, 0)) == 0) {
        conf_code("host", conf.drv->cuMemFree((CUdeviceptr)(uintptr_t)host));
        conf_need("free-host", conf.drv->cuMemFreeHost(host));
    }
    if (conf_range_make(&range, 1, 1, conf.chunk_bytes) == 0) {
        conf_code("mapped-by-hand", conf.drv->cuMemFree(range.base));
        conf_range_drop(&range);
    }
}

static void plain_alignment(void) {
    static const size_t sizes[] = {1, 100, 256, 257, 4000, 65537, 1 << 20, (2 << 20) + 1};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    CUdeviceptr ptr[COUNT], all = 0;
    int apart = 1;
    size_t i, j;

    for (i = 0; i < COUNT; i++) {
        if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr[i], sizes[i])) != 0)
            return;
        all |= ptr[i];
        for (j = 0; j < i; j++)
            apart &= ptr[i] >= ptr[j] + sizes[j] || ptr[j] >= ptr[i] + sizes[i];
    }
    conf_fact("aligned-256", all % 256 == 0);
    conf_fact("aligned-512", all % 512 == 0);
    conf_fact("apart", apart);
    for (i = 0; i < COUNT; i++)
        conf_need("free", conf.drv->cuMemFree(ptr[i]));
}

static void plain_ranges(void) {
    CUdeviceptr ptr = 0, base = 0;
    size_t bytes = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 1000)) != 0)
        return;
    conf_code("start", conf.drv->cuMemGetAddressRange(&base, &bytes, ptr));
    conf_fact("base", (long long)(base - ptr));
    conf_fact("bytes", (long long)bytes);
    conf_code("interior", conf.drv->cuMemGetAddressRange(&base, &bytes, ptr + 999));
    conf_fact("base", (long long)(base - ptr));
    conf_code("unknown", conf.drv->cuMemGetAddressRange(&base, &bytes, 4096));
    conf_code("null", conf.drv->cuMemGetAddressRange(&base, &bytes, 0));
    conf_need("free", conf.drv->cuMemFree(ptr));
    conf_code("freed", conf.drv->cuMemGetAddressRange(&base, &bytes, ptr));
}

static void plain_info(void) {
    size_t before = 0, during = 0, after = 0, total = 0;
    size_t bytes = conf.device_bytes / 8 < (256 << 20) ? conf.device_bytes / 8 : 256 << 20;
    size_t most = bytes / 10 * 9; /* other programs may use the device meanwhile */
    CUdeviceptr ptr = 0;

    conf_code("info", conf.drv->cuMemGetInfo(&before, &total));
    conf_fact("free-within-total", before <= total);
    conf_fact("total-is-device", total == conf.device_bytes);
    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, bytes)) != 0)
        return;
    conf_need("info", conf.drv->cuMemGetInfo(&during, &total));
    conf_fact("counted", before >= during + most);
    conf_need("free", conf.drv->cuMemFree(ptr));
    conf_need("info", conf.drv->cuMemGetInfo(&after, &total));
    conf_fact("given-back", after >= during + most);
}

static const struct conf_case plain_cases[] = {
    {"sizes", plain_sizes, 0},   {"frees", plain_frees, 0}, {"alignment", plain_alignment, 0},
    {"ranges", plain_ranges, 0}, {"info", plain_info, 0},
};
CONF_GROUP(plain, 0);

/* ---- host memory allocated by the driver ----------------------------------------------------- */

static void host_say_flags(void *host) {
    unsigned int flags = 99;
    CUresult code = conf.drv->cuMemHostGetFlags(&flags, host);

    conf_value("flags", code, flags);
}

static void host_flags(void) {
    static const char *const labels[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "16"};
    unsigned int i;

    for (i = 0; i < 10; i++) {
        unsigned int flags = i < 9 ? i : 16;
        void *host = NULL;

        if (conf_code(labels[i], conf.drv->cuMemHostAlloc(&host, 4096, flags)) != CUDA_SUCCESS)
            continue;
        host_say_flags(host);
        conf_need("free", conf.drv->cuMemFreeHost(host));
    }
}

static void host_sizes(void) {
    void *host = NULL;

    conf_code("zero", conf.drv->cuMemHostAlloc(&host, 0, 0));
    conf_fact("is-null", host == NULL);
    conf_code("byte", conf.drv->cuMemHostAlloc(&host, 1, 0));
    conf_fact("aligned-512", (uintptr_t)host % 512 == 0);
    conf_code("free", conf.drv->cuMemFreeHost(host));
    conf_code("largest", conf.drv->cuMemHostAlloc(&host, ~(size_t)0 / 2, 0));
    conf_code("odd", conf.drv->cuMemHostAlloc(&host, 5000, 0));
    memset(host, 7, 5000);
    conf_code("free", conf.drv->cuMemFreeHost(host));
}

static void host_frees(void) {
    char *memory = malloc(8192);
    CUdeviceptr device = 0;
    void *host = NULL;

    if (memory == NULL || conf_need("alloc", conf.drv->cuMemHostAlloc(&host, 8192, 0)) != 0 ||
        conf_need("device", conf.drv->cuMemAlloc(&device, 4096)) != 0)
        return;
    conf_code("null", conf.drv->cuMemFreeHost(NULL));
    conf_code("interior", conf.drv->cuMemFreeHost((char *)host + 64));
    conf_code("foreign", conf.drv->cuMemFreeHost(memory));
    conf_code("device", conf.drv->cuMemFreeHost((void *)(uintptr_t)device));
    conf_code("free", conf.drv->cuMemFreeHost(host));
    conf_code("twice", conf.drv->cuMemFreeHost(host));
    conf_need("free", conf.drv->cuMemFree(device));
    free(memory);
}

static void host_queries(void) {
    unsigned int flags = 99;
    CUdeviceptr ptr = 0;
    void *host = NULL;
    int local = 0;

    if (conf_need("alloc", conf.drv->cuMemHostAlloc(&host, 8192, CU_MEMHOSTALLOC_DEVICEMAP)) != 0)
        return;
    conf_code("pointer", conf.drv->cuMemHostGetDevicePointer(&ptr, host, 0));
    conf_fact("same-address", ptr == (CUdeviceptr)(uintptr_t)host);
    conf_code("interior", conf.drv->cuMemHostGetDevicePointer(&ptr, (char *)host + 100, 0));
    conf_fact("offset", (long long)(ptr - (CUdeviceptr)(uintptr_t)host));
    conf_code("pointer-flags", conf.drv->cuMemHostGetDevicePointer(&ptr, host, 1));
    conf_code("pointer-null", conf.drv->cuMemHostGetDevicePointer(&ptr, NULL, 0));
    conf_code("pointer-foreign", conf.drv->cuMemHostGetDevicePointer(&ptr, &local, 0));
    conf_code("flags-interior", conf.drv->cuMemHostGetFlags(&flags, (char *)host + 100));
    conf_code("flags-null", conf.drv->cuMemHostGetFlags(&flags, NULL));
    conf_code("flags-foreign", conf.drv->cuMemHostGetFlags(&flags, &local));
    conf_need("free", conf.drv->cuMemFreeHost(host));
    conf_code("pointer-freed", conf.drv->cuMemHostGetDevicePointer(&ptr, host, 0));
}

/* ---- registered host memory ------------------------------------------------------------------ */

enum { HOST_PAGES = 16, HOST_PAGE = 65536 }; /* larger than a page of any supported machine */

static char *host_map(void) {
    char *memory = mmap(NULL, HOST_PAGES * HOST_PAGE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        conf_word("setup-mmap", "failed");
        return NULL;
    }
    memset(memory, 1, HOST_PAGES * HOST_PAGE);
    return memory;
}

static void host_register(void) {
    const unsigned int map = CU_MEMHOSTREGISTER_DEVICEMAP;
    char *memory = host_map();
    CUdeviceptr ptr = 0;

    if (memory == NULL)
        return;
    conf_code("zero", conf.drv->cuMemHostRegister(memory, 0, 0));
    conf_code("null", conf.drv->cuMemHostRegister(NULL, HOST_PAGE, 0));
    conf_code("bad-flags", conf.drv->cuMemHostRegister(memory, HOST_PAGE, 64));
    conf_code("register", conf.drv->cuMemHostRegister(memory, 4 * HOST_PAGE, map));
    conf_code("twice", conf.drv->cuMemHostRegister(memory, 4 * HOST_PAGE, map));
    conf_code("inside", conf.drv->cuMemHostRegister(memory + HOST_PAGE, HOST_PAGE, map));
    conf_code("overlap", conf.drv->cuMemHostRegister(memory + 3 * HOST_PAGE, 2 * HOST_PAGE, map));
    conf_code("pointer", conf.drv->cuMemHostGetDevicePointer(&ptr, memory, 0));
    conf_fact("same-address", ptr == (CUdeviceptr)(uintptr_t)memory);
    host_say_flags(memory);
    conf_code("free-host", conf.drv->cuMemFreeHost(memory));
    conf_code("unregister-interior", conf.drv->cuMemHostUnregister(memory + HOST_PAGE));
    conf_code("unregister", conf.drv->cuMemHostUnregister(memory));
    conf_code("again", conf.drv->cuMemHostUnregister(memory));
    conf_code("unregister-null", conf.drv->cuMemHostUnregister(NULL));
    conf_code("pointer-gone", conf.drv->cuMemHostGetDevicePointer(&ptr, memory, 0));
    munmap(memory, HOST_PAGES * HOST_PAGE);
}

static void host_register_odd(void) {
    char *memory = host_map();
    void *host = NULL;

    if (memory == NULL)
        return;
    conf_code("odd-start", conf.drv->cuMemHostRegister(memory + 100, 5000, 0));
    conf_code("unregister-start", conf.drv->cuMemHostUnregister(memory + 100));
    conf_code("odd-size", conf.drv->cuMemHostRegister(memory, 5000, 0));
    conf_code("unregister", conf.drv->cuMemHostUnregister(memory));
    conf_code("portable", conf.drv->cuMemHostRegister(memory, HOST_PAGE, 1));
    conf_code("unregister", conf.drv->cuMemHostUnregister(memory));
    if (conf_need("alloc", conf.drv->cuMemHostAlloc(&host, HOST_PAGE, 0)) == 0) {
        conf_code("drivers-own", conf.drv->cuMemHostRegister(host, HOST_PAGE, 0));
        conf_code("unregister-drivers-own", conf.drv->cuMemHostUnregister(host));
        conf_need("free", conf.drv->cuMemFreeHost(host));
    }
    munmap(memory, HOST_PAGES * HOST_PAGE);
}

/* Two adjacent registrations: a copy must not cross from one to the other. */
static void host_register_adjacent(void) {
    char *memory = host_map();
    CUdeviceptr device = 0;
    uint32_t first = 11, second = 22;

    if (memory == NULL || conf_need("alloc", conf.drv->cuMemAlloc(&device, HOST_PAGE)) != 0)
        return;
    conf_code("first", conf.drv->cuMemHostRegister(memory, 4 * HOST_PAGE, 0));
    conf_code("second", conf.drv->cuMemHostRegister(memory + 4 * HOST_PAGE, 4 * HOST_PAGE, 0));
    memcpy(memory + 4 * HOST_PAGE - 4, &first, 4);
    memcpy(memory + 4 * HOST_PAGE, &second, 4);
    conf_code("within", conf.drv->cuMemcpyHtoD(device, memory + 4 * HOST_PAGE, 4096));
    conf_fact("read", conf_peek(device));
    conf_code("across", conf.drv->cuMemcpyHtoD(device, memory + 4 * HOST_PAGE - 4, 8));
    conf_code("across-back", conf.drv->cuMemcpyDtoH(memory + 4 * HOST_PAGE - 4, device, 8));
    conf_code("across-unified",
              conf.drv->cuMemcpy(device, (CUdeviceptr)(uintptr_t)(memory + 4 * HOST_PAGE - 4), 8));
    conf_code("past-end", conf.drv->cuMemcpyHtoD(device, memory + 8 * HOST_PAGE - 4, 8));
    conf_code("into-start", conf.drv->cuMemcpyHtoD(device, memory + 8 * HOST_PAGE, 8));
    conf_code("unregister", conf.drv->cuMemHostUnregister(memory));
    conf_code("unregister", conf.drv->cuMemHostUnregister(memory + 4 * HOST_PAGE));
    conf_code("pageable-now", conf.drv->cuMemcpyHtoD(device, memory + 4 * HOST_PAGE - 4, 8));
    conf_fact("read", conf_peek(device + 4) == second);
    conf_need("free", conf.drv->cuMemFree(device));
    munmap(memory, HOST_PAGES * HOST_PAGE);
}

static const struct conf_case host_cases[] = {
    {"flags", host_flags, 0},
    {"sizes", host_sizes, 0},
    {"frees", host_frees, CONF_ALONE},
    {"queries", host_queries, 0},
    {"register", host_register, 0},
    {"register-odd", host_register_odd, 0},
    {"register-adjacent", host_register_adjacent, 0},
};
CONF_GROUP(host, 0);

/* ---- managed --------------------------------------------------------------------------------- */

enum { MANAGED_BYTES = 4 << 20 };

static void managed_sizes(void) {
    static const char *const labels[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
    CUdeviceptr ptr = 0;
    unsigned int flags;

    conf_code("zero", conf.drv->cuMemAllocManaged(&ptr, 0, CU_MEM_ATTACH_GLOBAL));
    for (flags = 0; flags < 9; flags++)
        if (conf_code(labels[flags], conf.drv->cuMemAllocManaged(&ptr, 4096, flags)) ==
            CUDA_SUCCESS)
            conf_code("free", conf.drv->cuMemFree(ptr));
}

/* The host accesses the memory directly, the device with copies and fills. A prefetch changes no
 * contents. */
static void managed_use(void) {
    CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUstream stream = NULL;
    volatile uint32_t *words;
    CUdeviceptr ptr = 0;

    if (conf_need("alloc",
                  conf.drv->cuMemAllocManaged(&ptr, MANAGED_BYTES, CU_MEM_ATTACH_GLOBAL)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0)
        return;
    words = (volatile uint32_t *)(uintptr_t)ptr;
    words[0] = 5;
    conf_code("prefetch", conf.drv->cuMemPrefetchAsync(ptr, MANAGED_BYTES, conf_here(), 0, stream));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_fact("device-reads", conf_peek(ptr));
    conf_code("fill", conf.drv->cuMemsetD32Async(ptr + 4096, 6, 16, stream));
    conf_code("prefetch-back", conf.drv->cuMemPrefetchAsync(ptr, MANAGED_BYTES, host, 0, stream));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_fact("host-reads", words[1024]);
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
    conf_code("free", conf.drv->cuMemFree(ptr));
    conf_code("twice", conf.drv->cuMemFree(ptr));
}

static void managed_prefetch_bad(void) {
    CUmemLocation bad = {CU_MEM_LOCATION_TYPE_DEVICE, 4711},
                  none = {CU_MEM_LOCATION_TYPE_INVALID, 0};
    CUdeviceptr ptr = 0, plain = 0;

    if (conf_need("alloc",
                  conf.drv->cuMemAllocManaged(&ptr, MANAGED_BYTES, CU_MEM_ATTACH_GLOBAL)) != 0 ||
        conf_need("plain", conf.drv->cuMemAlloc(&plain, 4096)) != 0)
        return;
    conf_code("zero", conf.drv->cuMemPrefetchAsync(ptr, 0, conf_here(), 0, NULL));
    conf_code("odd", conf.drv->cuMemPrefetchAsync(ptr + 100, 1000, conf_here(), 0, NULL));
    conf_code("flags", conf.drv->cuMemPrefetchAsync(ptr, MANAGED_BYTES, conf_here(), 1, NULL));
    conf_code("bad-device", conf.drv->cuMemPrefetchAsync(ptr, MANAGED_BYTES, bad, 0, NULL));
    conf_code("no-location", conf.drv->cuMemPrefetchAsync(ptr, MANAGED_BYTES, none, 0, NULL));
    conf_code("past-end",
              conf.drv->cuMemPrefetchAsync(ptr, MANAGED_BYTES + (8 << 20), conf_here(), 0, NULL));
    conf_code("plain", conf.drv->cuMemPrefetchAsync(plain, 4096, conf_here(), 0, NULL));
    conf_code("null", conf.drv->cuMemPrefetchAsync(0, 4096, conf_here(), 0, NULL));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(ptr));
    conf_need("free", conf.drv->cuMemFree(plain));
}

static void managed_advise(void) {
    static const char *const labels[] = {"0",
                                         "set-read-mostly",
                                         "unset-read-mostly",
                                         "set-preferred",
                                         "unset-preferred",
                                         "set-accessed",
                                         "unset-accessed",
                                         "99"};
    CUmemLocation bad = {CU_MEM_LOCATION_TYPE_DEVICE, 4711};
    CUdeviceptr ptr = 0, plain = 0;
    int i;

    if (conf_need("alloc",
                  conf.drv->cuMemAllocManaged(&ptr, MANAGED_BYTES, CU_MEM_ATTACH_GLOBAL)) != 0 ||
        conf_need("plain", conf.drv->cuMemAlloc(&plain, 4096)) != 0)
        return;
    for (i = 0; i < 8; i++)
        conf_code(labels[i], conf.drv->cuMemAdvise(ptr, MANAGED_BYTES,
                                                   (CUmem_advise)(i < 7 ? i : 99), conf_here()));
    conf_code("bad-device",
              conf.drv->cuMemAdvise(ptr, MANAGED_BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, bad));
    conf_code("zero", conf.drv->cuMemAdvise(ptr, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, conf_here()));
    conf_code("plain",
              conf.drv->cuMemAdvise(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, conf_here()));
    conf_need("free", conf.drv->cuMemFree(ptr));
    conf_need("free", conf.drv->cuMemFree(plain));
}

static void managed_say(const char *label, CUmem_range_attribute attribute, CUdeviceptr ptr,
                        size_t bytes) {
    int value = 99;
    CUresult code = conf.drv->cuMemRangeGetAttribute(&value, sizeof value, attribute, ptr, bytes);

    conf_value(label, code, value);
}

static void managed_say_all(CUdeviceptr ptr, size_t bytes) {
    managed_say("mostly", CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr, bytes);
    managed_say("preferred", CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, bytes);
    managed_say("type", CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, ptr, bytes);
    managed_say("prefetched", CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ptr, bytes);
    managed_say("type", CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE, ptr, bytes);
    managed_say("by", CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, ptr, bytes);
}

/* The driver keeps advice per page. A query of a range returns a value only if all its pages
 * agree. */
static void managed_ranges(void) {
    const CUmemLocation host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    const size_t half = MANAGED_BYTES / 2;
    CUdeviceptr ptr = 0;
    int by[3] = {99, 99, 99};

    if (conf_need("alloc",
                  conf.drv->cuMemAllocManaged(&ptr, MANAGED_BYTES, CU_MEM_ATTACH_GLOBAL)) != 0)
        return;
    managed_say_all(ptr, MANAGED_BYTES);
    conf_code("advise", conf.drv->cuMemAdvise(ptr, half, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    conf_code("advise", conf.drv->cuMemAdvise(ptr, MANAGED_BYTES,
                                              CU_MEM_ADVISE_SET_PREFERRED_LOCATION, conf_here()));
    conf_code("advise",
              conf.drv->cuMemAdvise(ptr, MANAGED_BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, host));
    conf_code("prefetch", conf.drv->cuMemPrefetchAsync(ptr, half, host, 0, NULL));
    managed_say_all(ptr, half);
    managed_say_all(ptr + half, half);
    managed_say_all(ptr, MANAGED_BYTES);
    conf_code("advise", conf.drv->cuMemAdvise(ptr, MANAGED_BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY,
                                              conf_here()));
    conf_code("list", conf.drv->cuMemRangeGetAttribute(
                          by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, ptr, MANAGED_BYTES));
    conf_fact("first", by[0]);
    conf_fact("second", by[1]);
    conf_fact("third", by[2]);
    conf_code("advise", conf.drv->cuMemAdvise(ptr + half, half, CU_MEM_ADVISE_UNSET_ACCESSED_BY,
                                              conf_here()));
    managed_say_all(ptr, MANAGED_BYTES);
    conf_code("unset", conf.drv->cuMemAdvise(ptr + half, half,
                                             CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, conf_here()));
    managed_say_all(ptr, MANAGED_BYTES);
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void managed_ranges_bad(void) {
    CUdeviceptr ptr = 0, plain = 0;
    int value[2] = {99, 99};

    if (conf_need("alloc",
                  conf.drv->cuMemAllocManaged(&ptr, MANAGED_BYTES, CU_MEM_ATTACH_GLOBAL)) != 0 ||
        conf_need("plain", conf.drv->cuMemAlloc(&plain, 4096)) != 0)
        return;
    conf_code("8-bytes", conf.drv->cuMemRangeGetAttribute(
                             value, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr, 4096));
    conf_code("0-bytes", conf.drv->cuMemRangeGetAttribute(
                             value, 0, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, 4096));
    conf_code("list-0", conf.drv->cuMemRangeGetAttribute(
                            value, 0, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, ptr, 4096));
    conf_code("list-6", conf.drv->cuMemRangeGetAttribute(
                            value, 6, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, ptr, 4096));
    managed_say("attribute-0", (CUmem_range_attribute)0, ptr, 4096);
    managed_say("attribute-99", (CUmem_range_attribute)99, ptr, 4096);
    managed_say("zero", CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr, 0);
    managed_say("past-end", CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr, MANAGED_BYTES * 2);
    managed_say("plain", CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, plain, 4096);
    managed_say("null", CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 0, 4096);
    conf_need("free", conf.drv->cuMemFree(ptr));
    conf_need("free", conf.drv->cuMemFree(plain));
}

/* Attaching managed memory, in stream order. 0 bytes mean the whole allocation. */
static void managed_attach(void) {
    CUstream stream = NULL;
    volatile uint32_t *words;
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAllocManaged(&ptr, MANAGED_BYTES, CU_MEM_ATTACH_HOST)) !=
            0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0)
        return;
    words = (volatile uint32_t *)(uintptr_t)ptr;
    words[0] = 5;
    conf_code("single", conf.drv->cuStreamAttachMemAsync(stream, ptr, 0, CU_MEM_ATTACH_SINGLE));
    conf_code("fill", conf.drv->cuMemsetD32Async(ptr + 4096, 6, 16, stream));
    conf_code("host", conf.drv->cuStreamAttachMemAsync(stream, ptr, 0, CU_MEM_ATTACH_HOST));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_fact("host-reads", words[0]);
    conf_fact("filled", words[1024]);
    conf_code("global", conf.drv->cuStreamAttachMemAsync(stream, ptr, 0, CU_MEM_ATTACH_GLOBAL));
    conf_code("whole",
              conf.drv->cuStreamAttachMemAsync(stream, ptr, MANAGED_BYTES, CU_MEM_ATTACH_GLOBAL));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_fact("device-reads", conf_peek(ptr));
    conf_code("legacy-global",
              conf.drv->cuStreamAttachMemAsync(NULL, ptr, 0, CU_MEM_ATTACH_GLOBAL));
    conf_code("legacy-host", conf.drv->cuStreamAttachMemAsync(NULL, ptr, 0, CU_MEM_ATTACH_HOST));
    conf_code("again", conf.drv->cuStreamAttachMemAsync(NULL, ptr, 0, CU_MEM_ATTACH_GLOBAL));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
    conf_code("free", conf.drv->cuMemFree(ptr));
}

/* Allocates managed memory and a stream for the following cases. Returns 0 on success. */
static int attach_begin(CUdeviceptr *ptr, CUstream *stream) {
    return conf_need("alloc",
                     conf.drv->cuMemAllocManaged(ptr, MANAGED_BYTES, CU_MEM_ATTACH_GLOBAL)) != 0 ||
           conf_need("stream", conf.drv->cuStreamCreate(stream, CU_STREAM_NON_BLOCKING)) != 0;
}

static void attach_end(CUdeviceptr ptr, CUstream stream) {
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void managed_attach_legacy(void) {
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;

    if (attach_begin(&ptr, &stream) != 0)
        return;
    conf_code("single", conf.drv->cuStreamAttachMemAsync(NULL, ptr, 0, CU_MEM_ATTACH_SINGLE));
    conf_code("single-named",
              conf.drv->cuStreamAttachMemAsync(CU_STREAM_LEGACY, ptr, 0, CU_MEM_ATTACH_SINGLE));
    attach_end(ptr, stream);
}

static void managed_attach_part(void) {
    CUdeviceptr ptr = 0;
    CUstream stream = NULL;

    if (attach_begin(&ptr, &stream) != 0)
        return;
    conf_code("part", conf.drv->cuStreamAttachMemAsync(stream, ptr, 4096, CU_MEM_ATTACH_GLOBAL));
    conf_code("too-much", conf.drv->cuStreamAttachMemAsync(stream, ptr, MANAGED_BYTES + 1,
                                                           CU_MEM_ATTACH_GLOBAL));
    attach_end(ptr, stream);
}

static void managed_attach_plain(void) {
    CUdeviceptr ptr = 0, plain = 0;
    CUstream stream = NULL;

    if (attach_begin(&ptr, &stream) != 0 ||
        conf_need("plain", conf.drv->cuMemAlloc(&plain, 4096)) != 0)
        return;
    conf_code("plain", conf.drv->cuStreamAttachMemAsync(stream, plain, 0, CU_MEM_ATTACH_GLOBAL));
    conf_need("free", conf.drv->cuMemFree(plain));
    attach_end(ptr, stream);
}

static const struct conf_case managed_cases[] = {
    {"sizes", managed_sizes, 0},
    {"use", managed_use, 0},
    {"prefetch-bad", managed_prefetch_bad, CONF_ALONE},
    {"advise", managed_advise, 0},
    {"ranges", managed_ranges, 0},
    {"ranges-bad", managed_ranges_bad, 0},
    {"attach", managed_attach, 0},
    {"attach-legacy", managed_attach_legacy, CONF_ALONE},
    {"attach-part", managed_attach_part, CONF_ALONE},
    {"attach-plain", managed_attach_plain, CONF_ALONE},
};
CONF_GROUP(managed, 0);

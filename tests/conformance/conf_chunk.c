/*
 * Conformance: chunks (cuMemCreate, cuMemRelease and queries about them) and address reservations.
 * Mappings are in conf_map.c.
 */
#include <string.h>

#include "conformance.h"

/* ---- granularity ----------------------------------------------------------------------------- */

static void chunk_say_granularity(const char *label, const CUmemAllocationProp *prop,
                                  CUmemAllocationGranularity_flags option) {
    size_t bytes = 0;
    CUresult code = conf.drv->cuMemGetAllocationGranularity(&bytes, prop, option);

    conf_value(label, code, (long long)bytes);
}

static void chunk_granularity(void) {
    CUmemAllocationProp prop = conf_prop(), host = conf_prop_host();

    chunk_say_granularity("minimum", &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    chunk_say_granularity("recommended", &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    chunk_say_granularity("bad-option", &prop, (CUmemAllocationGranularity_flags)7);
    chunk_say_granularity("host-minimum", &host, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    chunk_say_granularity("host-recommended", &host, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    chunk_say_granularity("shareable", &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    prop.location.id = 4711;
    chunk_say_granularity("bad-device", &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_INVALID, 0};
    chunk_say_granularity("bad-location", &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    prop = conf_prop();
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    chunk_say_granularity("bad-type", &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

/* ---- create ---------------------------------------------------------------------------------- */

static void chunk_try(const char *label, size_t bytes, const CUmemAllocationProp *prop,
                      unsigned long long flags) {
    CUmemGenericAllocationHandle handle = 0;
    CUresult code = conf_code(label, conf.drv->cuMemCreate(&handle, bytes, prop, flags));

    if (code == CUDA_SUCCESS)
        conf_need("release", conf.drv->cuMemRelease(handle));
}

static void chunk_create_sizes(void) {
    CUmemAllocationProp prop = conf_prop();
    size_t chunk = conf.chunk_bytes;

    chunk_try("one", chunk, &prop, 0);
    chunk_try("three", 3 * chunk, &prop, 0);
    chunk_try("zero", 0, &prop, 0);
    chunk_try("byte", 1, &prop, 0);
    chunk_try("page", 4096, &prop, 0);
    chunk_try("64k", 64 << 10, &prop, 0);
    chunk_try("odd", chunk + 4096, &prop, 0);
    chunk_try("above-device", conf.device_bytes / chunk * chunk + 8 * chunk, &prop, 0);
    chunk_try("half-of-addresses", (size_t)1 << 46, &prop, 0);
    chunk_try("largest", ~(size_t)0 / chunk * chunk, &prop, 0);
    chunk_try("after", chunk, &prop, 0);
}

static void chunk_create_props(void) {
    CUmemAllocationProp prop = conf_prop();
    size_t chunk = conf.chunk_bytes;

    chunk_try("flags", chunk, &prop, 1);
    prop.location.id = 4711;
    chunk_try("bad-device", chunk, &prop, 0);
    prop.location.id = -1;
    chunk_try("device-minus-one", chunk, &prop, 0);
    prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_INVALID, 0};
    chunk_try("no-location", chunk, &prop, 0);
    prop.location = (CUmemLocation){(CUmemLocationType)77, 0};
    chunk_try("bad-location", chunk, &prop, 0);
    prop = conf_prop();
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    chunk_try("no-type", chunk, &prop, 0);
    prop.type = (CUmemAllocationType)77;
    chunk_try("bad-type", chunk, &prop, 0);
    chunk_try("no-prop", chunk, NULL, 0);
}

static void chunk_create_handle_types(void) {
    CUmemAllocationProp prop = conf_prop();

    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    chunk_try("fd", conf.chunk_bytes, &prop, 0);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    chunk_try("fabric", conf.chunk_bytes, &prop, 0);
    prop.requestedHandleTypes =
        (CUmemAllocationHandleType)(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
                                    CU_MEM_HANDLE_TYPE_FABRIC);
    chunk_try("fd-and-fabric", conf.chunk_bytes, &prop, 0);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    chunk_try("win32", conf.chunk_bytes, &prop, 0);
    prop.requestedHandleTypes = (CUmemAllocationHandleType)64;
    chunk_try("unknown", conf.chunk_bytes, &prop, 0);
    prop = conf_prop();
    prop.allocFlags.gpuDirectRDMACapable = 1;
    chunk_try("rdma", conf.chunk_bytes, &prop, 0);
}

static void chunk_create_host(void) {
    CUmemAllocationProp prop = conf_prop_host();

    chunk_try("one", conf.chunk_bytes, &prop, 0);
    chunk_try("zero", 0, &prop, 0);
    chunk_try("page", 4096, &prop, 0);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    chunk_try("fd", conf.chunk_bytes, &prop, 0);
    prop = conf_prop_host();
    prop.location.id = 4711;
    chunk_try("bad-node", conf.chunk_bytes, &prop, 0);
}

/* ---- chunk handles --------------------------------------------------------------------------- */

static void chunk_properties(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop(), got;

    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.allocFlags.gpuDirectRDMACapable = 1;
    if (conf_need("create", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0)) != 0)
        return;
    memset(&got, 0x5a, sizeof got);
    conf_code("get", conf.drv->cuMemGetAllocationPropertiesFromHandle(&got, handle));
    conf_fact("type", got.type);
    conf_fact("handle-types", got.requestedHandleTypes);
    conf_fact("location", got.location.type);
    conf_fact("id", got.location.id);
    conf_fact("rdma", got.allocFlags.gpuDirectRDMACapable);
    conf_fact("compression", got.allocFlags.compressionType);
    conf_code("release", conf.drv->cuMemRelease(handle));
    conf_code("get-0", conf.drv->cuMemGetAllocationPropertiesFromHandle(&got, 0));
}

static void chunk_release_zero(void) {
    conf_code("release-0", conf.drv->cuMemRelease(0));
}

static void chunk_release_twice(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();

    if (conf_need("create", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0)) != 0)
        return;
    conf_code("release", conf.drv->cuMemRelease(handle));
    conf_code("again", conf.drv->cuMemRelease(handle));
}

/* A handle from the address of a mapped chunk; it is a separate reference. */
static void chunk_retain(void) {
    CUmemGenericAllocationHandle handle = 0;
    struct conf_range range;

    if (conf_range_make(&range, 2, 1, conf.chunk_bytes) != 0)
        return;
    conf_code("retain",
              conf.drv->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)range.base));
    conf_fact("same", handle == range.handle[0]);
    conf_code("release", conf.drv->cuMemRelease(handle));
    conf_code("interior", conf.drv->cuMemRetainAllocationHandle(
                              &handle, (void *)(uintptr_t)(range.base + 4096)));
    conf_code("release", conf.drv->cuMemRelease(handle));
    conf_code("unmapped", conf.drv->cuMemRetainAllocationHandle(
                              &handle, (void *)(uintptr_t)(range.base + conf.chunk_bytes)));
    conf_code("null", conf.drv->cuMemRetainAllocationHandle(&handle, NULL));
    conf_range_drop(&range);
}

/* The memory is freed with its last mapping or its last reference, whichever comes later. */
static void chunk_release_mapped(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, conf.chunk_bytes, 0, 0, 0)) != 0)
        return;
    conf_code("create", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0));
    conf_code("map", conf.drv->cuMemMap(base, conf.chunk_bytes, 0, handle, 0));
    conf_code("release", conf.drv->cuMemRelease(handle));
    conf_code("access", conf_allow(base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("write", conf_poke(base, 4711));
    conf_fact("read", conf_peek(base));
    conf_code("retain", conf.drv->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)base));
    conf_code("unmap", conf.drv->cuMemUnmap(base, conf.chunk_bytes));
    conf_code("map", conf.drv->cuMemMap(base, conf.chunk_bytes, 0, handle, 0));
    conf_code("access", conf_allow(base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_fact("read", conf_peek(base));
    conf_code("unmap", conf.drv->cuMemUnmap(base, conf.chunk_bytes));
    conf_code("release", conf.drv->cuMemRelease(handle));
    conf_code("address-free", conf.drv->cuMemAddressFree(base, conf.chunk_bytes));
}

/* ---- reservations ---------------------------------------------------------------------------- */

static void chunk_try_reserve(const char *label, size_t bytes, size_t align, CUdeviceptr hint,
                              unsigned long long flags) {
    CUdeviceptr base = 0;
    CUresult code =
        conf_code(label, conf.drv->cuMemAddressReserve(&base, bytes, align, hint, flags));

    if (code != CUDA_SUCCESS)
        return;
    if (align > conf.chunk_bytes)
        conf_fact("aligned", base % align == 0);
    conf_need("address-free", conf.drv->cuMemAddressFree(base, bytes));
}

static void chunk_reserve_sizes(void) {
    size_t chunk = conf.chunk_bytes;
    CUdeviceptr base = 0;

    chunk_try_reserve("one", chunk, 0, 0, 0);
    chunk_try_reserve("zero", 0, 0, 0, 0);
    chunk_try_reserve("byte", 1, 0, 0, 0);
    chunk_try_reserve("page", 4096, 0, 0, 0);
    chunk_try_reserve("64k", 64 << 10, 0, 0, 0);
    chunk_try_reserve("odd", chunk + 4096, 0, 0, 0);
    chunk_try_reserve("4-gib", (size_t)4 << 30, 0, 0, 0);
    chunk_try_reserve("all-addresses", (size_t)1 << 62, 0, 0, 0);
    chunk_try_reserve("flags", chunk, 0, 0, 1);
    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, 3 * chunk, 0, 0, 0)) != 0)
        return;
    conf_fact("aligned", base % chunk == 0);
    conf_need("address-free", conf.drv->cuMemAddressFree(base, 3 * chunk));
}

static void chunk_reserve_alignments(void) {
    size_t chunk = conf.chunk_bytes;

    chunk_try_reserve("1", chunk, 1, 0, 0);
    chunk_try_reserve("3", chunk, 3, 0, 0);
    chunk_try_reserve("4k", chunk, 4096, 0, 0);
    chunk_try_reserve("2m", chunk, chunk, 0, 0);
    chunk_try_reserve("3-chunks", chunk, 3 * chunk, 0, 0);
    chunk_try_reserve("64m", chunk, (size_t)64 << 20, 0, 0);
    chunk_try_reserve("1g", chunk, (size_t)1 << 30, 0, 0);
}

/* A hint is advice: free addresses are used; for occupied ones the driver chooses others. */
static void chunk_reserve_hints(void) {
    size_t bytes = 16 * conf.chunk_bytes;
    CUdeviceptr first = 0, second = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&first, 2 * bytes, 0, 0, 0)) != 0)
        return;
    conf_need("address-free", conf.drv->cuMemAddressFree(first, 2 * bytes));
    if (conf_code("free-place", conf.drv->cuMemAddressReserve(&second, bytes, 0, first, 0)) ==
        CUDA_SUCCESS) {
        conf_fact("honoured", second == first);
        first = second;
        if (conf_code("occupied", conf.drv->cuMemAddressReserve(&second, bytes, 0, first, 0)) ==
            CUDA_SUCCESS) {
            conf_fact("elsewhere", second >= first + bytes || second + bytes <= first);
            conf_need("address-free", conf.drv->cuMemAddressFree(second, bytes));
        }
        if (conf_code("behind", conf.drv->cuMemAddressReserve(&second, bytes, 0, first + bytes,
                                                              0)) == CUDA_SUCCESS) {
            conf_fact("honoured", second == first + bytes);
            conf_need("address-free", conf.drv->cuMemAddressFree(second, bytes));
        }
        if (conf_code("unaligned",
                      conf.drv->cuMemAddressReserve(&second, bytes, 0, first + bytes + 4096, 0)) ==
            CUDA_SUCCESS) {
            conf_fact("aligned", second % conf.chunk_bytes == 0);
            conf_need("address-free", conf.drv->cuMemAddressFree(second, bytes));
        }
        conf_need("address-free", conf.drv->cuMemAddressFree(first, bytes));
    }
}

/* Only a whole reservation can be freed. */
static void chunk_address_free(void) {
    size_t chunk = conf.chunk_bytes;
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, 4 * chunk, 0, 0, 0)) != 0)
        return;
    conf_code("front", conf.drv->cuMemAddressFree(base, chunk));
    conf_code("back", conf.drv->cuMemAddressFree(base + 2 * chunk, 2 * chunk));
    conf_code("more", conf.drv->cuMemAddressFree(base, 5 * chunk));
    conf_code("zero", conf.drv->cuMemAddressFree(base, 0));
    conf_code("whole", conf.drv->cuMemAddressFree(base, 4 * chunk));
    conf_code("again", conf.drv->cuMemAddressFree(base, 4 * chunk));
    conf_code("null", conf.drv->cuMemAddressFree(0, chunk));
}

/* Two adjacent reservations are separate: one call cannot free both. */
static void chunk_address_free_neighbours(void) {
    size_t chunk = conf.chunk_bytes;
    CUdeviceptr first = 0, second = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&first, 4 * chunk, 0, 0, 0)) != 0)
        return;
    conf_need("address-free", conf.drv->cuMemAddressFree(first, 4 * chunk));
    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&first, 2 * chunk, 0, first, 0)) != 0)
        return;
    if (conf_need("reserve",
                  conf.drv->cuMemAddressReserve(&second, 2 * chunk, 0, first + 2 * chunk, 0)) != 0)
        return;
    conf_fact("adjacent", second == first + 2 * chunk);
    if (second == first + 2 * chunk)
        conf_code("both", conf.drv->cuMemAddressFree(first, 4 * chunk));
    conf_code("first", conf.drv->cuMemAddressFree(first, 2 * chunk));
    conf_code("second", conf.drv->cuMemAddressFree(second, 2 * chunk));
}

static const struct conf_case chunk_cases[] = {
    {"granularity", chunk_granularity, 0},
    {"create-sizes", chunk_create_sizes, 0},
    {"create-props", chunk_create_props, 0},
    {"create-handle-types", chunk_create_handle_types, 0},
    {"create-host", chunk_create_host, 0},
    {"properties", chunk_properties, 0},
    {"release-zero", chunk_release_zero, CONF_ALONE},
    {"release-twice", chunk_release_twice, CONF_ALONE},
    {"retain", chunk_retain, 0},
    {"release-mapped", chunk_release_mapped, 0},
    {"reserve-sizes", chunk_reserve_sizes, 0},
    {"reserve-alignments", chunk_reserve_alignments, 0},
    {"reserve-hints", chunk_reserve_hints, 0},
    {"address-free", chunk_address_free, 0},
    {"address-free-neighbours", chunk_address_free_neighbours, 0},
};
CONF_GROUP(chunk, 0);

/*
 * Conformance: mapping and unmapping chunks, and access rights of mappings.
 */
#include <string.h>

#include "conformance.h"

/* ---- map ------------------------------------------------------------------------------------- */

/* Undoes a mapping that should have failed, so that it does not affect the next try. */
static void map_try(const char *label, CUdeviceptr ptr, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult code = conf_code(label, conf.drv->cuMemMap(ptr, bytes, offset, handle, flags));

    if (code == CUDA_SUCCESS)
        conf_need("unmap", conf.drv->cuMemUnmap(ptr, bytes));
}

static void map_bounds(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    size_t chunk = conf.chunk_bytes;
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, 4 * chunk, 0, 0, 0)) != 0 ||
        conf_need("create", conf.drv->cuMemCreate(&handle, 2 * chunk, &prop, 0)) != 0)
        return;
    map_try("offset", base, chunk, chunk, handle, 0);
    map_try("odd-offset", base, chunk, 4096, handle, 0);
    map_try("part", base, chunk, 0, handle, 0);
    map_try("more-than-chunk", base, 3 * chunk, 0, handle, 0);
    map_try("zero", base, 0, 0, handle, 0);
    map_try("odd-size", base, chunk + 4096, 0, handle, 0);
    map_try("odd-address", base + 4096, 2 * chunk, 0, handle, 0);
    map_try("null", 0, 2 * chunk, 0, handle, 0);
    map_try("flags", base, 2 * chunk, 0, handle, 1);
    map_try("no-handle", base, 2 * chunk, 0, 0, 0);
    map_try("whole", base + 2 * chunk, 2 * chunk, 0, handle, 0);
    conf_need("release", conf.drv->cuMemRelease(handle));
    conf_need("address-free", conf.drv->cuMemAddressFree(base, 4 * chunk));
}

/* The driver allows a mapping past the end of its reservation. The soft driver does not, since
 * those addresses belong to something else. */
static void map_past_end(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    size_t chunk = conf.chunk_bytes;
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, 4 * chunk, 0, 0, 0)) != 0 ||
        conf_need("create", conf.drv->cuMemCreate(&handle, 2 * chunk, &prop, 0)) != 0)
        return;
    map_try("map", base + 3 * chunk, 2 * chunk, 0, handle, 0);
    conf_need("release", conf.drv->cuMemRelease(handle));
    conf_need("address-free", conf.drv->cuMemAddressFree(base, 4 * chunk));
}

static void map_unreserved(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, conf.chunk_bytes, 0, 0, 0)) !=
            0 ||
        conf_need("create", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0)) != 0)
        return;
    conf_need("address-free", conf.drv->cuMemAddressFree(base, conf.chunk_bytes));
    map_try("map", base, conf.chunk_bytes, 0, handle, 0);
    conf_need("release", conf.drv->cuMemRelease(handle));
}

static void map_over_mapped(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    size_t chunk = conf.chunk_bytes;
    struct conf_range range;

    if (conf_range_make(&range, 3, 2, chunk) != 0)
        return;
    if (conf_need("create", conf.drv->cuMemCreate(&handle, 2 * chunk, &prop, 0)) == 0) {
        conf_code("same", conf.drv->cuMemMap(range.base, chunk, 0, range.handle[0], 0));
        conf_code("other", conf.drv->cuMemMap(range.base, 2 * chunk, 0, handle, 0));
        conf_code("overlap", conf.drv->cuMemMap(range.base + chunk, 2 * chunk, 0, handle, 0));
        conf_code("write", conf_poke(range.base + chunk, 5));
        conf_fact("read", conf_peek(range.base + chunk));
        conf_need("release", conf.drv->cuMemRelease(handle));
    }
    conf_range_drop(&range);
}

/* Across two adjacent reservations. */
static void map_across_reservations(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    size_t chunk = conf.chunk_bytes;
    CUdeviceptr first = 0, second = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&first, 2 * chunk, 0, 0, 0)) != 0 ||
        conf_need("create", conf.drv->cuMemCreate(&handle, 2 * chunk, &prop, 0)) != 0)
        return;
    conf_need("address-free", conf.drv->cuMemAddressFree(first, 2 * chunk));
    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&first, chunk, 0, first, 0)) != 0 ||
        conf_need("reserve", conf.drv->cuMemAddressReserve(&second, chunk, 0, first + chunk, 0)) !=
            0)
        return;
    conf_fact("adjacent", second == first + chunk);
    if (second == first + chunk)
        map_try("map", first, 2 * chunk, 0, handle, 0);
    conf_need("address-free", conf.drv->cuMemAddressFree(first, chunk));
    conf_need("address-free", conf.drv->cuMemAddressFree(second, chunk));
    conf_need("release", conf.drv->cuMemRelease(handle));
}

/* One chunk mapped at two addresses is the same memory. */
static void map_twice(void) {
    size_t chunk = conf.chunk_bytes;
    struct conf_range range;
    CUdeviceptr second;

    if (conf_range_make(&range, 2, 1, chunk) != 0)
        return;
    second = range.base + chunk;
    conf_code("map", conf.drv->cuMemMap(second, chunk, 0, range.handle[0], 0));
    conf_code("access", conf_allow(second, chunk, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("write-first", conf_poke(range.base, 111));
    conf_fact("read-second", conf_peek(second));
    conf_code("write-second", conf_poke(second + 4096, 222));
    conf_fact("read-first", conf_peek(range.base + 4096));
    conf_code("copy-between", conf.drv->cuMemcpyDtoD(second + 8192, range.base, 4));
    conf_fact("read-first", conf_peek(range.base + 8192));
    conf_code("unmap-second", conf.drv->cuMemUnmap(second, chunk));
    conf_fact("read-first", conf_peek(range.base));
    conf_range_drop(&range);
}

/* A chunk keeps its bytes when it is unmapped and mapped elsewhere. acre relies on this to move
 * chunks. */
static void map_moved(void) {
    size_t chunk = conf.chunk_bytes;
    struct conf_range range;

    if (conf_range_make(&range, 3, 1, chunk) != 0)
        return;
    conf_code("write", conf_poke(range.base, 333));
    conf_code("unmap", conf.drv->cuMemUnmap(range.base, chunk));
    conf_code("map", conf.drv->cuMemMap(range.base + 2 * chunk, chunk, 0, range.handle[0], 0));
    conf_code("access",
              conf_allow(range.base + 2 * chunk, chunk, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_fact("read", conf_peek(range.base + 2 * chunk));
    conf_code("unmap", conf.drv->cuMemUnmap(range.base + 2 * chunk, chunk));
    conf_code("map", conf.drv->cuMemMap(range.base, chunk, 0, range.handle[0], 0));
    conf_range_drop(&range);
}

static void map_copy_across_chunks(void) {
    size_t chunk = conf.chunk_bytes;
    uint32_t words[4] = {1, 2, 3, 4}, back[4] = {0, 0, 0, 0};
    struct conf_range range;

    if (conf_range_make(&range, 3, 3, chunk) != 0)
        return;
    conf_code("to-device", conf.drv->cuMemcpyHtoD(range.base + chunk - 8, words, sizeof words));
    conf_code("from-device", conf.drv->cuMemcpyDtoH(back, range.base + chunk - 8, sizeof back));
    conf_fact("same", memcmp(words, back, sizeof words) == 0);
    conf_code("device-to-device",
              conf.drv->cuMemcpyDtoD(range.base + 2 * chunk - 8, range.base + chunk - 8, 16));
    conf_fact("before-border", conf_peek(range.base + 2 * chunk - 4));
    conf_fact("after-border", conf_peek(range.base + 2 * chunk));
    conf_code("fill", conf.drv->cuMemsetD32(range.base + chunk - 64, 9, 32));
    conf_fact("before-border", conf_peek(range.base + chunk - 64));
    conf_fact("after-border", conf_peek(range.base + chunk + 60));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf_range_drop(&range);
}

/* ---- unmap ----------------------------------------------------------------------------------- */

static void map_unmap_bounds(void) {
    size_t chunk = conf.chunk_bytes;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, 4 * chunk, 0, 0, 0)) != 0 ||
        conf_need("create", conf.drv->cuMemCreate(&handle, 2 * chunk, &prop, 0)) != 0 ||
        conf_need("map", conf.drv->cuMemMap(base, 2 * chunk, 0, handle, 0)) != 0)
        return;
    conf_code("front", conf.drv->cuMemUnmap(base, chunk));
    conf_code("back", conf.drv->cuMemUnmap(base + chunk, chunk));
    conf_code("odd", conf.drv->cuMemUnmap(base, 2 * chunk - 4096));
    conf_code("zero", conf.drv->cuMemUnmap(base, 0));
    conf_code("too-much", conf.drv->cuMemUnmap(base, 3 * chunk));
    conf_code("whole", conf.drv->cuMemUnmap(base, 2 * chunk));
    conf_code("again", conf.drv->cuMemUnmap(base, 2 * chunk));
    conf_code("never-mapped", conf.drv->cuMemUnmap(base + 2 * chunk, chunk));
    conf_need("release", conf.drv->cuMemRelease(handle));
    conf_need("address-free", conf.drv->cuMemAddressFree(base, 4 * chunk));
    conf_code("not-reserved", conf.drv->cuMemUnmap(base, chunk));
}

/* One call may unmap several mappings; also with a hole among them. */
static void map_unmap_several(void) {
    size_t chunk = conf.chunk_bytes;
    struct conf_range range;

    if (conf_range_make(&range, 4, 4, chunk) != 0)
        return;
    conf_code("two", conf.drv->cuMemUnmap(range.base, 2 * chunk));
    conf_code("hole-and-two", conf.drv->cuMemUnmap(range.base + chunk, 3 * chunk));
    conf_code("two", conf.drv->cuMemUnmap(range.base + 2 * chunk, 2 * chunk));
    conf_need("release", conf.drv->cuMemRelease(range.handle[0]));
    conf_need("release", conf.drv->cuMemRelease(range.handle[1]));
    conf_need("release", conf.drv->cuMemRelease(range.handle[2]));
    conf_need("release", conf.drv->cuMemRelease(range.handle[3]));
    range.count = 0;
    conf_range_drop(&range);
}

static void map_address_free_mapped(void) {
    struct conf_range range;

    if (conf_range_make(&range, 2, 1, conf.chunk_bytes) != 0)
        return;
    conf_code("mapped", conf.drv->cuMemAddressFree(range.base, range.bytes));
    conf_code("write", conf_poke(range.base, 6));
    conf_fact("read", conf_peek(range.base));
    conf_range_drop(&range);
}

static const struct conf_case map_cases[] = {
    {"bounds", map_bounds, 0},
    {"past-end", map_past_end, CONF_CUDA},
    {"unreserved", map_unreserved, 0},
    {"over-mapped", map_over_mapped, 0},
    {"across-reservations", map_across_reservations, 0},
    {"twice", map_twice, 0},
    {"moved", map_moved, 0},
    {"copy-across-chunks", map_copy_across_chunks, 0},
    {"unmap-bounds", map_unmap_bounds, CONF_ALONE},
    {"unmap-several", map_unmap_several, CONF_ALONE},
    {"address-free-mapped", map_address_free_mapped, CONF_ALONE},
};
CONF_GROUP(map, 0);

/* ---- access ---------------------------------------------------------------------------------- */

static void access_say(const char *label, CUdeviceptr ptr) {
    CUmemLocation here = conf_here();
    unsigned long long flags = 99;
    CUresult code = conf.drv->cuMemGetAccess(&flags, &here, ptr);

    conf_value(label, code, (long long)flags);
}

static void access_ranges(void) {
    size_t chunk = conf.chunk_bytes;
    struct conf_range range;
    const CUmemAccess_flags both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

    if (conf_range_make(&range, 3, 2, chunk) != 0)
        return;
    conf_code("hole", conf_allow(range.base + 2 * chunk, chunk, both));
    conf_code("partly-hole", conf_allow(range.base, 3 * chunk, both));
    conf_code("second", conf_allow(range.base + chunk, chunk, both));
    conf_code("both", conf_allow(range.base, 2 * chunk, both));
    conf_code("zero", conf_allow(range.base, 0, both));
    conf_code("odd", conf_allow(range.base, 4096, both));
    conf_code("odd-address", conf_allow(range.base + 4096, chunk, both));
    conf_code("null", conf_allow(0, chunk, both));
    conf_code("flags-2", conf_allow(range.base, chunk, (CUmemAccess_flags)2));
    conf_code("no-desc", conf.drv->cuMemSetAccess(range.base, chunk, NULL, 1));
    conf_code("count-0", conf.drv->cuMemSetAccess(range.base, chunk,
                                                  &(CUmemAccessDesc){conf_here(), both}, 0));
    access_say("first", range.base);
    conf_range_drop(&range);
}

/* Access to half of a mapping of two granules. */
static void access_part_of_mapping(void) {
    size_t chunk = conf.chunk_bytes;
    struct conf_range range;

    if (conf_range_make(&range, 1, 1, 2 * chunk) != 0)
        return;
    conf_code("front", conf_allow(range.base, chunk, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("back", conf_allow(range.base + chunk, chunk, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    access_say("front", range.base);
    access_say("back", range.base + chunk);
    conf_range_drop(&range);
}

static void access_query(void) {
    size_t chunk = conf.chunk_bytes;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, 2 * chunk, 0, 0, 0)) != 0 ||
        conf_need("create", conf.drv->cuMemCreate(&handle, chunk, &prop, 0)) != 0)
        return;
    access_say("reserved", base);
    conf_need("map", conf.drv->cuMemMap(base, chunk, 0, handle, 0));
    access_say("mapped", base);
    conf_code("allow", conf_allow(base, chunk, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    access_say("allowed", base);
    access_say("interior", base + 4096);
    conf_code("read-only", conf_allow(base, chunk, CU_MEM_ACCESS_FLAGS_PROT_READ));
    access_say("after", base);
    conf_code("none", conf_allow(base, chunk, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    access_say("after", base);
    conf_code("again", conf_allow(base, chunk, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    access_say("after", base);
    conf_code("unmap", conf.drv->cuMemUnmap(base, chunk));
    access_say("unmapped", base);
    conf_code("map", conf.drv->cuMemMap(base, chunk, 0, handle, 0));
    access_say("mapped-again", base);
    conf_code("unmap", conf.drv->cuMemUnmap(base, chunk));
    conf_need("release", conf.drv->cuMemRelease(handle));
    conf_need("address-free", conf.drv->cuMemAddressFree(base, 2 * chunk));
}

static void access_locations(void) {
    CUmemAllocationProp host = conf_prop_host();
    unsigned long long flags = 99;
    CUmemLocation bad = {CU_MEM_LOCATION_TYPE_DEVICE, 4711};
    CUmemAccessDesc desc[2];
    struct conf_range range;

    if (conf_range_make(&range, 1, 1, conf.chunk_bytes) != 0)
        return;
    desc[0] = (CUmemAccessDesc){bad, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    conf_code("bad-device", conf.drv->cuMemSetAccess(range.base, range.bytes, desc, 1));
    conf_code("get-bad-device", conf.drv->cuMemGetAccess(&flags, &bad, range.base));
    desc[0].location = host.location;
    conf_code("host-on-device", conf.drv->cuMemSetAccess(range.base, range.bytes, desc, 1));
    desc[0].location = (CUmemLocation){CU_MEM_LOCATION_TYPE_INVALID, 0};
    conf_code("no-location", conf.drv->cuMemSetAccess(range.base, range.bytes, desc, 1));
    desc[0] = desc[1] = (CUmemAccessDesc){conf_here(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    conf_code("same-twice", conf.drv->cuMemSetAccess(range.base, range.bytes, desc, 2));
    desc[1].location = bad;
    conf_code("second-bad", conf.drv->cuMemSetAccess(range.base, range.bytes, desc, 2));
    conf_range_drop(&range);
}

/* Copies and fills on mapped memory without access. Each runs alone, since it may break the
 * context. */
static int access_closed(CUdeviceptr *base) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(base, conf.chunk_bytes, 0, 0, 0)) != 0 ||
        conf_need("create", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0)) != 0)
        return -1;
    return conf_need("map", conf.drv->cuMemMap(*base, conf.chunk_bytes, 0, handle, 0));
}

static void access_closed_write(void) {
    CUdeviceptr base = 0;

    if (access_closed(&base) != 0)
        return;
    conf_code("copy", conf_poke(base, 1));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void access_closed_read(void) {
    CUdeviceptr base = 0;
    uint32_t word = 0;

    if (access_closed(&base) != 0)
        return;
    conf_code("copy", conf.drv->cuMemcpyDtoH(&word, base, sizeof word));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void access_closed_fill(void) {
    CUdeviceptr base = 0;

    if (access_closed(&base) != 0)
        return;
    conf_code("fill", conf.drv->cuMemsetD8(base, 1, 64));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

/* As access_closed_write, after access was granted and revoked. */
static void access_taken_away(void) {
    CUdeviceptr base = 0;

    if (access_closed(&base) != 0)
        return;
    conf_code("allow", conf_allow(base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("write", conf_poke(base, 3));
    conf_code("none", conf_allow(base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    conf_code("write", conf_poke(base, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void access_read_only_write(void) {
    CUdeviceptr base = 0;

    if (access_closed(&base) != 0)
        return;
    if (conf_code("read-only", conf_allow(base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READ)) !=
        CUDA_SUCCESS)
        return;
    conf_code("read", conf.drv->cuMemcpyDtoH(&(uint32_t){0}, base, 4));
    conf_code("write", conf_poke(base, 4));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void access_half_open_copy(void) {
    size_t chunk = conf.chunk_bytes;
    CUmemAllocationProp prop = conf_prop();
    struct conf_range range;
    uint32_t words[2] = {7, 8};

    if (conf_range_make(&range, 2, 1, chunk) != 0)
        return;
    conf_need("create", conf.drv->cuMemCreate(&range.handle[1], chunk, &prop, 0));
    conf_need("map", conf.drv->cuMemMap(range.base + chunk, chunk, 0, range.handle[1], 0));
    conf_code("copy-into-closed", conf.drv->cuMemcpyHtoD(range.base + chunk - 4, words, 8));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void access_unmapped_copy(void) {
    CUdeviceptr base = 0;

    if (conf_need("reserve", conf.drv->cuMemAddressReserve(&base, conf.chunk_bytes, 0, 0, 0)) != 0)
        return;
    conf_code("write", conf_poke(base, 1));
    conf_code("read", conf.drv->cuMemcpyDtoH(&(uint32_t){0}, base, 4));
    conf_code("fill", conf.drv->cuMemsetD8(base, 1, 64));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

static void access_past_mapped_copy(void) {
    uint32_t words[2] = {7, 8};
    struct conf_range range;

    if (conf_range_make(&range, 2, 1, conf.chunk_bytes) != 0)
        return;
    conf_code("write", conf.drv->cuMemcpyHtoD(range.base + conf.chunk_bytes - 4, words, 8));
    conf_code("read", conf.drv->cuMemcpyDtoH(words, range.base + conf.chunk_bytes - 4, 8));
    conf_code("fill", conf.drv->cuMemsetD8(range.base + conf.chunk_bytes - 4, 1, 8));
    conf_code("sync", conf.drv->cuCtxSynchronize());
}

/* Host chunks: the CPU and the GPU see the same memory, also across two chunks. */
static void access_host_chunks(void) {
    size_t chunk = conf.chunk_bytes;
    CUmemGenericAllocationHandle handle[2] = {0, 0};
    CUmemAllocationProp prop = conf_prop_host();
    CUmemAccessDesc desc[2] = {{conf_here(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                               {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUdeviceptr base = 0, plain = 0;
    volatile uint32_t *words;

    if (conf_code("create", conf.drv->cuMemCreate(&handle[0], chunk, &prop, 0)) != CUDA_SUCCESS)
        return;
    conf_need("create", conf.drv->cuMemCreate(&handle[1], chunk, &prop, 0));
    conf_need("reserve", conf.drv->cuMemAddressReserve(&base, 2 * chunk, 0, 0, 0));
    conf_need("alloc", conf.drv->cuMemAlloc(&plain, 4096));
    conf_code("map", conf.drv->cuMemMap(base, chunk, 0, handle[0], 0));
    conf_code("map", conf.drv->cuMemMap(base + chunk, chunk, 0, handle[1], 0));
    conf_code("offset", conf.drv->cuMemMap(base, chunk, chunk, handle[0], 0));
    if (conf_code("access", conf.drv->cuMemSetAccess(base, 2 * chunk, desc, 2)) == CUDA_SUCCESS) {
        words = (volatile uint32_t *)(uintptr_t)(base + chunk - 8);
        words[0] = 10, words[1] = 11, words[2] = 12, words[3] = 13;
        conf_code("to-device", conf.drv->cuMemcpyDtoD(plain, base + chunk - 8, 16));
        conf_fact("first", conf_peek(plain));
        conf_fact("last", conf_peek(plain + 12));
        conf_code("fill", conf.drv->cuMemsetD32(base + chunk - 4, 21, 2));
        conf_code("sync", conf.drv->cuCtxSynchronize());
        conf_fact("host-reads", words[1]);
        conf_fact("host-reads", words[2]);
        conf_fact("host-reads", words[3]);
        conf_code("fill-inside", conf.drv->cuMemsetD32(base, 22, 2));
        conf_code("sync", conf.drv->cuCtxSynchronize());
        access_say("get", base);
    }
    conf_code("unmap", conf.drv->cuMemUnmap(base, 2 * chunk));
    conf_need("release", conf.drv->cuMemRelease(handle[0]));
    conf_need("release", conf.drv->cuMemRelease(handle[1]));
    conf_need("address-free", conf.drv->cuMemAddressFree(base, 2 * chunk));
    conf_need("free", conf.drv->cuMemFree(plain));
}

static const struct conf_case access_cases[] = {
    {"ranges", access_ranges, 0},
    {"part-of-mapping", access_part_of_mapping, 0},
    {"query", access_query, 0},
    {"locations", access_locations, 0},
    {"host-chunks", access_host_chunks, 0},
    {"closed-write", access_closed_write, CONF_ALONE},
    {"closed-read", access_closed_read, CONF_ALONE},
    {"closed-fill", access_closed_fill, CONF_ALONE},
    {"taken-away", access_taken_away, CONF_ALONE},
    {"read-only-write", access_read_only_write, CONF_ALONE},
    {"half-open-copy", access_half_open_copy, CONF_ALONE},
    {"unmapped-copy", access_unmapped_copy, CONF_ALONE},
    {"past-mapped-copy", access_past_mapped_copy, CONF_ALONE},
};
CONF_GROUP(access, 0);

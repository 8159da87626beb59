/* Virtual memory management on the soft driver: chunks, addresses, mappings, access. */
#include "soft_fixture.h"

#include <sys/stat.h>

static size_t file_bytes(void) {
    struct stat info;
    assert_int_equal(fstat(acre__soft.devices[0].fd, &info), 0);
    return (size_t)info.st_blocks * 512;
}

/* ---- access ---- */

SOFT_TEST(vmm_host_touch_of_device_memory_faults) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr at = soft_reserve(CHUNK);
    assert_true(soft_faults(at, 0));
    assert_ok(drv->cuMemMap(at, CHUNK, 0, chunk, 0));
    assert_true(soft_faults(at, 0));
    assert_ok(soft_access(at, CHUNK, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    assert_ok(drv->cuMemsetD8(at, 1, CHUNK));
    assert_ok(drv->cuCtxSynchronize());
    assert_true(soft_faults(at, 0));
    assert_true(soft_faults(at + CHUNK - 1, 1));
    CUmemAccessDesc host = {{CU_MEM_LOCATION_TYPE_HOST, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    assert_refused(drv->cuMemSetAccess(at, CHUNK, &host, 1));
    assert_true(soft_faults(at, 0));
}

static CUresult host_access(CUdeviceptr at, size_t bytes, unsigned flags) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, (CUmemAccess_flags)flags};
    return drv->cuMemSetAccess(at, bytes, &access, 1);
}

SOFT_TEST(vmm_host_chunk_is_open_after_access_only) {
    CUmemAllocationProp prop = soft_prop(0);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    CUmemGenericAllocationHandle chunk;
    assert_ok(drv->cuMemCreate(&chunk, CHUNK, &prop, 0));
    assert_int_equal(soft_used_bytes(0), 0); /* no device memory */
    CUdeviceptr at = soft_map(chunk, CHUNK, 0);
    assert_ok(drv->cuMemsetD8(at, 0x5a, CHUNK));
    assert_ok(drv->cuCtxSynchronize());
    assert_true(soft_faults(at, 0));
    assert_ok(host_access(at, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    volatile unsigned char *bytes = (volatile unsigned char *)(uintptr_t)at;
    assert_int_equal(bytes[0], 0x5a);
    assert_int_equal(bytes[CHUNK - 1], 0x5a);
    assert_true(soft_faults(at, 1));
    assert_ok(host_access(at, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    bytes[7] = 0x77;
    assert_true(soft_is_filled(at + 7, 1, 0x77));
    assert_ok(host_access(at, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    assert_true(soft_faults(at, 0));
    assert_ok(host_access(at, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_true(soft_faults(at, 0));
}

SOFT_TEST(vmm_new_mapping_has_no_access) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr at = soft_reserve(CHUNK);
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    unsigned long long flags = 9;
    char byte = 0;
    assert_refused(drv->cuMemGetAccess(&flags, &here, at));
    assert_ok(drv->cuMemMap(at, CHUNK, 0, chunk, 0));
    assert_ok(drv->cuMemGetAccess(&flags, &here, at));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    assert_refused(drv->cuMemcpyDtoH(&byte, at, 1));
    assert_ok(soft_access(at, CHUNK, 0, CU_MEM_ACCESS_FLAGS_PROT_READ));
    assert_ok(drv->cuMemcpyDtoH(&byte, at, 1));
    assert_refused(drv->cuMemsetD8(at, 1, 1));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_ok(drv->cuMemMap(at, CHUNK, 0, chunk, 0)); /* cuMemUnmap removed the access */
    assert_refused(drv->cuMemcpyDtoH(&byte, at, 1));
}

/* ---- physical memory ---- */

enum { CHUNKS = 32 }; /* the device has 64 MiB here */

SOFT_TEST(vmm_device_is_full_to_the_last_byte) {
    CUmemAllocationProp prop = soft_prop(0);
    CUmemGenericAllocationHandle chunks[CHUNKS], more = 5;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CHUNKS; i++)
            chunks[i] = soft_chunk(CHUNK, 0);
        size_t room = 1, total = 0;
        assert_ok(drv->cuMemGetInfo(&room, &total));
        assert_int_equal(room, 0);
        assert_int_equal(total, CHUNKS * CHUNK);
        assert_int_equal(drv->cuMemCreate(&more, CHUNK, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(more, 5);
        assert_ok(drv->cuMemRelease(chunks[round * 7]));
        assert_int_equal(drv->cuMemCreate(&more, 2 * CHUNK, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
        chunks[round * 7] = soft_chunk(CHUNK, 0);
        assert_int_equal(drv->cuMemCreate(&more, CHUNK, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
        for (int i = 0; i < CHUNKS; i++)
            assert_ok(drv->cuMemRelease(chunks[i]));
    }
    assert_int_equal(soft_used_bytes(0), 0);
}

static const struct soft_backing *backing_of(CUmemGenericAllocationHandle handle) {
    return acre__tree_entry(acre__tree_find(&acre__soft.handles, handle), struct soft_handle, node)
        ->backing;
}

/* The file has room for 64 chunks, the device for 32. Single chunks at every second place of the
 * lower half force larger chunks into the upper half, where a pair stays allocated. */
SOFT_TEST(vmm_fragmented_memory_serves_large_chunk) {
    CUmemGenericAllocationHandle singles[CHUNKS];
    for (int i = 0; i < CHUNKS; i++)
        singles[i] = soft_chunk(CHUNK, 0);
    for (int i = 0; i < CHUNKS; i += 2)
        assert_ok(drv->cuMemRelease(singles[i]));
    CUmemGenericAllocationHandle run = soft_chunk(14 * CHUNK, 0), pair = soft_chunk(2 * CHUNK, 0);
    assert_ok(drv->cuMemRelease(run));
    for (int i = 1; i < CHUNKS; i += 2)
        if (i != 7 && i != 23 && i != 31)
            assert_ok(drv->cuMemRelease(singles[i]));
    assert_int_equal(soft_used_bytes(0), 5 * CHUNK);
    CUmemGenericAllocationHandle large = soft_chunk(27 * CHUNK, 0);
    assert_true(backing_of(large)->fd >= 0); /* it fits no hole of the file */
    CUmemAllocationProp prop = soft_prop(0);
    CUmemGenericAllocationHandle more;
    assert_int_equal(drv->cuMemCreate(&more, CHUNK, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CUdeviceptr at = soft_map(large, 27 * CHUNK, 0), beside = soft_map(pair, 2 * CHUNK, 0);
    assert_ok(drv->cuMemsetD8(beside, 1, 2 * CHUNK));
    assert_ok(drv->cuMemsetD8(at, 2, 27 * CHUNK));
    assert_true(soft_is_filled(beside, 2 * CHUNK, 1));
    assert_true(soft_is_filled(at, 27 * CHUNK, 2));
    assert_true(soft_faults(at, 0));
    assert_ok(drv->cuMemUnmap(at, 27 * CHUNK));
    assert_ok(drv->cuMemRelease(large));
    assert_int_equal(soft_used_bytes(0), 5 * CHUNK);
}

SOFT_TEST(vmm_released_chunk_gives_blocks_back) {
    CUmemGenericAllocationHandle chunk = soft_chunk(8 * CHUNK, 0);
    CUdeviceptr at = soft_map(chunk, 8 * CHUNK, 0);
    assert_int_equal(file_bytes(), 0);
    assert_ok(drv->cuMemsetD8(at, 0xff, 8 * CHUNK));
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(file_bytes(), 8 * CHUNK);
    assert_ok(drv->cuMemRelease(chunk)); /* the mapping keeps the chunk alive */
    assert_int_equal(file_bytes(), 8 * CHUNK);
    assert_int_equal(soft_used_bytes(0), 8 * CHUNK);
    assert_true(soft_is_filled(at, 8 * CHUNK, 0xff));
    assert_ok(drv->cuMemUnmap(at, 8 * CHUNK));
    assert_int_equal(file_bytes(), 0);
    assert_int_equal(soft_used_bytes(0), 0);
    assert_refused(drv->cuMemRelease(chunk));
}

SOFT_TEST(vmm_retained_handle_is_counted) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0), again = 0;
    CUdeviceptr at = soft_map(chunk, CHUNK, 0);
    assert_ok(drv->cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 99)));
    assert_int_equal(again, chunk);
    assert_ok(drv->cuMemRelease(chunk));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_int_equal(soft_used_bytes(0), CHUNK);
    assert_ok(drv->cuMemMap(at, CHUNK, 0, again, 0)); /* the chunk is still alive */
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    assert_ok(drv->cuMemRelease(again));
    assert_int_equal(soft_used_bytes(0), 0);
    assert_refused(drv->cuMemMap(at, CHUNK, 0, again, 0));
}

/* ---- mappings ---- */

SOFT_TEST(vmm_chunk_mapped_twice_shares_bytes) {
    CUmemGenericAllocationHandle chunk = soft_chunk(2 * CHUNK, 0);
    CUdeviceptr one = soft_map(chunk, 2 * CHUNK, 0), two = soft_map(chunk, 2 * CHUNK, 0);
    assert_ok(drv->cuMemsetD8(one, 3, 2 * CHUNK));
    assert_true(soft_is_filled(two, 2 * CHUNK, 3));
    assert_ok(drv->cuMemsetD8(two + CHUNK, 4, 100));
    assert_true(soft_is_filled(one + CHUNK, 100, 4));
    assert_int_equal(soft_used_bytes(0), 2 * CHUNK);
    assert_ok(drv->cuMemUnmap(one, 2 * CHUNK));
    assert_true(soft_is_filled(two + CHUNK, 100, 4));
}

SOFT_TEST(vmm_moved_chunk_keeps_bytes) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr range = soft_reserve(8 * CHUNK);
    soft_map_at(range, chunk, CHUNK, 0);
    assert_ok(drv->cuMemsetD8(range, 0x42, CHUNK));
    for (int i = 1; i < 8; i++) {
        assert_ok(drv->cuCtxSynchronize());
        assert_ok(drv->cuMemUnmap(range + (size_t)(i - 1) * CHUNK, CHUNK));
        soft_map_at(range + (size_t)i * CHUNK, chunk, CHUNK, 0);
        assert_true(soft_is_filled(range + (size_t)i * CHUNK, CHUNK, 0x42));
    }
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

SOFT_TEST(vmm_wrong_mappings_change_nothing) {
    CUmemGenericAllocationHandle chunk = soft_chunk(2 * CHUNK, 0), other = soft_chunk(CHUNK, 0);
    CUdeviceptr range = soft_reserve(4 * CHUNK);
    soft_map_at(range + CHUNK, chunk, 2 * CHUNK, 0);
    assert_refused(drv->cuMemMap(range, CHUNK, 0, chunk, 0));     /* not the whole chunk */
    assert_refused(drv->cuMemMap(range, 2 * CHUNK, 0, chunk, 0)); /* overlaps */
    assert_refused(drv->cuMemMap(range + 2 * CHUNK, CHUNK, 0, other, 0));
    assert_refused(drv->cuMemMap(range + 3 * CHUNK, 2 * CHUNK, 0, chunk, 0)); /* past the end */
    assert_refused(drv->cuMemMap(range + 512, CHUNK, 0, other, 0));
    assert_refused(drv->cuMemMap(range, CHUNK, CHUNK, chunk, 0));
    assert_refused(drv->cuMemUnmap(range + CHUNK, CHUNK)); /* half of a mapping */
    assert_refused(drv->cuMemUnmap(range, 2 * CHUNK));     /* a gap and half of a mapping */
    assert_refused(drv->cuMemUnmap(range + CHUNK, SIZE_MAX - CHUNK + 1));
    assert_refused(drv->cuMemAddressFree(range, 4 * CHUNK)); /* still mapped */
    assert_refused(soft_access(range + CHUNK, CHUNK, 0, 3));
    assert_refused(soft_access(range, 2 * CHUNK, 0, 3));
    assert_refused(soft_access(range + CHUNK, 2 * CHUNK, 1, 3));
    assert_refused(soft_access(range + CHUNK, 2 * CHUNK, 0, 2));
    assert_ok(drv->cuMemsetD8(range + CHUNK, 1, 2 * CHUNK)); /* nothing changed */
    assert_ok(drv->cuCtxSynchronize());
    soft_map_at(range, other, CHUNK, 0);
    assert_ok(drv->cuMemUnmap(range, 4 * CHUNK)); /* two whole mappings and a gap in one call */
    assert_refused(drv->cuMemsetD8(range, 1, 1));
    assert_refused(drv->cuMemsetD8(range + 2 * CHUNK, 1, 1));
    assert_refused(drv->cuMemAddressFree(range, 2 * CHUNK));
    assert_refused(drv->cuMemAddressFree(range + CHUNK, CHUNK));
    assert_ok(drv->cuMemAddressFree(range, 4 * CHUNK));
    assert_refused(drv->cuMemAddressFree(range, 4 * CHUNK));
}

/* ---- a model: chunks of several sizes, moved about in one range ---- */

enum { PLACES = 64, PIECES = 12, MOVES = 1500 };

struct piece {
    CUmemGenericAllocationHandle handle;
    size_t chunks;
    int place; /* -1: not mapped */
    unsigned char tag;
};

static int place_is_free(const struct piece *pieces, int place, size_t chunks) {
    if ((size_t)place + chunks > PLACES)
        return 0;
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].place >= 0 && place < pieces[i].place + (int)pieces[i].chunks &&
            pieces[i].place < place + (int)chunks)
            return 0;
    return 1;
}

static void piece_move(struct piece *pieces, int i, CUdeviceptr range, uint64_t *random) {
    struct piece *piece = &pieces[i];
    CUdeviceptr old = range + (size_t)(piece->place < 0 ? 0 : piece->place) * CHUNK;
    if (piece->place >= 0) {
        assert_ok(drv->cuCtxSynchronize());
        assert_ok(drv->cuMemUnmap(old, piece->chunks * CHUNK));
        piece->place = -1;
        return;
    }
    int place = (int)random_draw(random, PLACES);
    CUdeviceptr at = range + (size_t)place * CHUNK;
    CUresult result = drv->cuMemMap(at, piece->chunks * CHUNK, 0, piece->handle, 0);
    if (!place_is_free(pieces, place, piece->chunks)) {
        assert_int_equal(result, CUDA_ERROR_INVALID_VALUE);
        return;
    }
    assert_ok(result);
    assert_ok(soft_access(at, piece->chunks * CHUNK, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    piece->place = place;
}

SOFT_TEST(vmm_random_moves_agree_with_model) {
    uint64_t random = random_seed("moves");
    struct piece pieces[PIECES];
    CUdeviceptr range = soft_reserve(PLACES * CHUNK);
    for (int i = 0; i < PIECES; i++) {
        size_t chunks = 1 + random_draw(&random, 3);
        if (soft_used_bytes(0) + chunks * CHUNK > 64 * MIB)
            chunks = 1;
        pieces[i] = (struct piece){soft_chunk(chunks * CHUNK, 0), chunks, -1, 0};
    }
    for (int move = 0; move < MOVES; move++) {
        int i = (int)random_draw(&random, PIECES);
        if (random_draw(&random, 3) || pieces[i].place < 0) {
            piece_move(pieces, i, range, &random);
            continue;
        }
        CUdeviceptr at = range + (size_t)pieces[i].place * CHUNK;
        size_t bytes = pieces[i].chunks * CHUNK, probe = random_draw(&random, bytes - 100);
        assert_true(soft_is_filled(at + probe, 100, pieces[i].tag));
        pieces[i].tag = (unsigned char)random_draw(&random, 256);
        assert_ok(drv->cuMemsetD8(at, pieces[i].tag, bytes));
    }
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

/* ---- addresses ---- */

SOFT_TEST_BARE(vmm_full_window_makes_another) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.address_bytes = 2 * CHUNK;
    soft_begin_with(&config);
    CUdeviceptr at[20];
    for (int i = 0; i < 20; i++) {
        at[i] = soft_reserve((size_t)(1 + i % 4) * CHUNK);
        assert_int_equal(at[i] % CHUNK, 0);
        for (int k = 0; k < i; k++)
            assert_true(at[i] + (size_t)(1 + i % 4) * CHUNK <= at[k] ||
                        at[k] + (size_t)(1 + k % 4) * CHUNK <= at[i]);
    }
    assert_true(acre__soft.windows.count > 1);
    CUmemGenericAllocationHandle chunk = soft_chunk(4 * CHUNK, 0);
    soft_map_at(at[19], chunk, 4 * CHUNK, 0);
    assert_ok(drv->cuMemsetD8(at[19], 1, 4 * CHUNK));
    assert_true(soft_is_filled(at[19], 4 * CHUNK, 1));
    assert_true(soft_faults(at[19] + 4 * CHUNK - 1, 0));
}

SOFT_TEST(vmm_hint_is_taken_when_free) {
    CUdeviceptr first = soft_reserve(4 * CHUNK), next = 0, elsewhere = 0;
    assert_ok(drv->cuMemAddressReserve(&next, 2 * CHUNK, 0, first + 4 * CHUNK, 0));
    assert_int_equal(next, first + 4 * CHUNK);
    assert_ok(drv->cuMemAddressReserve(&elsewhere, 2 * CHUNK, 0, first + 2 * CHUNK, 0));
    assert_true(elsewhere != first + 2 * CHUNK); /* the hint is in use */
    assert_ok(drv->cuMemAddressFree(first, 4 * CHUNK));
    CUdeviceptr inside = 0;
    assert_ok(drv->cuMemAddressReserve(&inside, CHUNK, 0, first + CHUNK, 0));
    assert_int_equal(inside, first + CHUNK);
    assert_ok(drv->cuMemAddressReserve(&elsewhere, CHUNK, 0, (CUdeviceptr)0xdead00000000u, 0));
    assert_true(elsewhere % CHUNK == 0);
    assert_refused(drv->cuMemAddressReserve(&elsewhere, CHUNK, 0, UINT64_MAX, 0)); /* unaligned */
}

SOFT_TEST(vmm_alignment_of_one_gib_is_kept) {
    CUdeviceptr at[3];
    (void)soft_reserve(CHUNK);
    for (int i = 0; i < 3; i++) {
        assert_ok(drv->cuMemAddressReserve(&at[i], 4 * CHUNK, GIB, 0, 0));
        assert_int_equal(at[i] % GIB, 0);
    }
    assert_true(at[0] != at[1] && at[1] != at[2] && at[0] != at[2]);
    CUdeviceptr none = 3;
    assert_refused(drv->cuMemAddressReserve(&none, CHUNK, 3 * CHUNK, 0, 0));
    assert_int_equal(drv->cuMemAddressReserve(&none, CHUNK, (size_t)1 << 63, 0, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(drv->cuMemAddressReserve(&none, SIZE_MAX - CHUNK + 1, 0, 0, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_refused(drv->cuMemAddressReserve(&none, CHUNK - 1, 0, 0, 0));
    assert_int_equal(none, 3);
}

SOFT_TEST(vmm_freed_addresses_are_used_again) {
    CUdeviceptr at[16];
    uint64_t holes = 0;
    for (int i = 0; i < 16; i++)
        at[i] = soft_reserve(2 * CHUNK);
    holes = acre__soft.free_addresses.count;
    for (int i = 0; i < 16; i += 2) /* every second one, then the others: all holes must merge */
        assert_ok(drv->cuMemAddressFree(at[i], 2 * CHUNK));
    assert_int_equal(acre__soft.free_addresses.count, holes + 8);
    for (int i = 1; i < 16; i += 2)
        assert_ok(drv->cuMemAddressFree(at[i], 2 * CHUNK));
    assert_int_equal(acre__soft.free_addresses.count, 1);
    CUdeviceptr all = soft_reserve(32 * CHUNK);
    assert_int_equal(all, at[0]);
    assert_int_equal(acre__soft.windows.count, 1);
}

int main(void) {
    return tests_run("soft_vmm");
}

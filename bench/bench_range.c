/* Sparse ranges: commits and decommits of single pieces of 2 MiB, against the bare driver calls
 * that a program would make itself, with everything prepared.
 *
 *   still mapped  commit again on the stream of the decommit; floor: the queries whether the stream
 *                 is captured, and of its id
 *   decommit      floor: recording an event that exists
 *   mapped        commit a piece whose chunk exists unmapped; floor: map, set access
 *   unmapped      trim it again; floor: unmap
 *   moved         commit in one range with the idle memory of another, at the limit of their
 *                 budget; floor: unmap, map, set access
 *   new           commit without any unused chunk; floor: create, map, set access
 *
 * Figures are for one piece; each call is about one piece. Work is always done when memory is
 * reused. */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "cli.h"

enum { RANGE_PIECES = 64, RANGE_PASSES = 64 };

struct range_bench {
    struct bench *bench;
    acre_device *device;
    const struct acre__driver *drv;
    acre_device_info info;
    acre_stream stream;
    uint64_t piece;
    unsigned count; /* pieces: as many as the device keeps unused chunks for */
    unsigned passes;
    acre_range_budget *budget;
    acre_range *ranges[2];
    /* The floor's own memory. */
    CUdeviceptr at[2];
    CUmemGenericAllocationHandle handles[RANGE_PIECES];
    CUevent events[RANGE_PIECES];
};

/* ---- the floor ---- */

static CUmemLocation floor_location(const struct range_bench *b) {
    return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, (int)b->info.ordinal};
}

static int floor_create(struct range_bench *b, unsigned i) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = floor_location(b)};
    return b->drv->cuMemCreate(&b->handles[i], b->piece, &prop, 0) == CUDA_SUCCESS;
}

static int floor_map(struct range_bench *b, int side, unsigned i) {
    CUmemAccessDesc access = {floor_location(b), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = b->at[side] + i * b->piece;
    return b->drv->cuMemMap(at, b->piece, 0, b->handles[i], 0) == CUDA_SUCCESS &&
           b->drv->cuMemSetAccess(at, b->piece, &access, 1) == CUDA_SUCCESS;
}

static int floor_unmap(struct range_bench *b, int side, unsigned i) {
    return b->drv->cuMemUnmap(b->at[side] + i * b->piece, b->piece) == CUDA_SUCCESS;
}

static int floor_all(struct range_bench *b, int (*fn)(struct range_bench *b, unsigned i)) {
    int ok = 1;
    for (unsigned i = 0; ok && i < b->count; i++) {
        ok = fn(b, i);
    }
    return ok;
}

static int floor_map_left(struct range_bench *b, unsigned i) {
    return floor_map(b, 0, i);
}

static int floor_unmap_left(struct range_bench *b, unsigned i) {
    return floor_unmap(b, 0, i);
}

static int floor_move_right(struct range_bench *b, unsigned i) {
    return floor_unmap(b, 0, i) && floor_map(b, 1, i);
}

static int floor_unmap_right(struct range_bench *b, unsigned i) {
    return floor_unmap(b, 1, i);
}

static int floor_release(struct range_bench *b, unsigned i) {
    return b->drv->cuMemRelease(b->handles[i]) == CUDA_SUCCESS;
}

static int floor_create_map(struct range_bench *b, unsigned i) {
    return floor_create(b, i) && floor_map(b, 0, i);
}

static int floor_ask(struct range_bench *b, unsigned i) {
    CUstreamCaptureStatus state;
    unsigned long long id;
    (void)i;
    return b->drv->cuStreamIsCapturing(b->stream, &state) == CUDA_SUCCESS &&
           (b->drv->missing[ACRE__ENTRY_cuStreamGetId] ||
            b->drv->cuStreamGetId(b->stream, &id) == CUDA_SUCCESS);
}

static int floor_record(struct range_bench *b, unsigned i) {
    return b->drv->cuEventRecord(b->events[i], b->stream) == CUDA_SUCCESS;
}

/* ---- acre ---- */

static int range_commit(struct range_bench *b, int side) {
    for (unsigned i = 0; i < b->count; i++) {
        if (acre_range_commit(b->ranges[side], i * b->piece, b->piece, b->stream)) {
            return 0;
        }
    }
    return 1;
}

static int range_decommit(struct range_bench *b, int side) {
    for (unsigned i = 0; i < b->count; i++) {
        if (acre_range_decommit(b->ranges[side], i * b->piece, b->piece, b->stream)) {
            return 0;
        }
    }
    return 1;
}

static int range_sync(struct range_bench *b) {
    return acre_stream_sync(b->device, b->stream) == ACRE_OK;
}

/* ---- turns: figures are in nanoseconds for one piece ---- */

static double range_each(const struct range_bench *b, uint64_t ns, unsigned passes) {
    return (double)ns / ((double)b->count * passes);
}

static int turn_reuse(void *user, unsigned party, double *ns) {
    struct range_bench *b = user;
    uint64_t commit = 0, decommit = 0;
    int ok = party ? 1 : range_commit(b, 0) && range_decommit(b, 0);
    for (unsigned pass = 0; ok && pass < b->passes; pass++) {
        uint64_t begin = cli_now_ns();
        ok = party ? floor_all(b, floor_ask) : range_commit(b, 0);
        uint64_t middle = cli_now_ns();
        ok = ok && (party ? floor_all(b, floor_record) : range_decommit(b, 0));
        commit += middle - begin;
        decommit += cli_now_ns() - middle;
        ok = ok && range_sync(b);
    }
    ns[0] = range_each(b, commit, b->passes);
    ns[1] = range_each(b, decommit, b->passes);
    return ok && (party || acre_range_trim(b->ranges[0], 0) == ACRE_OK);
}

static int turn_map(void *user, unsigned party, double *ns) {
    struct range_bench *b = user;
    int ok = party || (range_commit(b, 0) && range_decommit(b, 0) && range_sync(b) &&
                       acre_range_trim(b->ranges[0], 0) == ACRE_OK);
    uint64_t begin = cli_now_ns();
    ok = ok && (party ? floor_all(b, floor_map_left) : range_commit(b, 0));
    ns[0] = range_each(b, cli_now_ns() - begin, 1);
    ok = ok && (party || (range_decommit(b, 0) && range_sync(b)));
    begin = cli_now_ns();
    ok = ok &&
         (party ? floor_all(b, floor_unmap_left) : acre_range_trim(b->ranges[0], 0) == ACRE_OK);
    ns[1] = range_each(b, cli_now_ns() - begin, 1);
    return ok;
}

static int turn_move(void *user, unsigned party, double *ns) {
    struct range_bench *b = user;
    int ok = party ? floor_all(b, floor_map_left)
                   : range_commit(b, 0) && range_decommit(b, 0) && range_sync(b);
    uint64_t begin = cli_now_ns();
    ok = ok && (party ? floor_all(b, floor_move_right) : range_commit(b, 1));
    ns[0] = range_each(b, cli_now_ns() - begin, 1);
    if (party) {
        return ok && floor_all(b, floor_unmap_right);
    }
    return ok && range_decommit(b, 1) && range_sync(b) &&
           acre_range_budget_trim(b->budget, 0) == ACRE_OK;
}

static int turn_new(void *user, unsigned party, double *ns) {
    struct range_bench *b = user;
    int ok = party ? floor_all(b, floor_release) : acre_trim(b->device) == ACRE_OK;
    uint64_t begin = cli_now_ns();
    ok = ok && (party ? floor_all(b, floor_create_map) : range_commit(b, 0));
    ns[0] = range_each(b, cli_now_ns() - begin, 1);
    if (party) {
        return ok && floor_all(b, floor_unmap_left);
    }
    return ok && range_decommit(b, 0) && range_sync(b) &&
           acre_range_trim(b->ranges[0], 0) == ACRE_OK;
}

/* ---- the suite ---- */

static int range_case(struct range_bench *b, bench_turn_fn turn, const char *first,
                      const char *second) {
    static const char *const who[] = {"acre", "floor"};
    const char *const names[] = {first, second};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    unsigned figures = second ? 2 : 1;
    if (!bench_rounds(b->bench, turn, b, 2, figures, ns)) {
        return 0;
    }
    for (unsigned k = 0; k < figures; k++) {
        char name[BENCH_NAME_BYTES];
        bench_case_name(names[k], b->piece, name);
        for (unsigned i = 0; i < 2; i++) {
            bench_result(b->bench, name, who[i], ns[i][k] / 1e3, "us");
        }
    }
    return 1;
}

static int range_floor_begin(struct range_bench *b) {
    for (int side = 0; side < 2; side++) {
        if (b->drv->cuMemAddressReserve(&b->at[side], b->count * b->piece, 0, 0, 0)) {
            return 0;
        }
    }
    for (unsigned i = 0; i < b->count; i++) {
        if (!floor_create(b, i) ||
            b->drv->cuEventCreate(&b->events[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
            return 0;
        }
    }
    return 1;
}

static int range_floor_end(struct range_bench *b) {
    int ok = floor_all(b, floor_release);
    for (unsigned i = 0; i < b->count; i++) {
        ok &= b->drv->cuEventDestroy(b->events[i]) == CUDA_SUCCESS;
    }
    for (int side = 0; side < 2; side++) {
        ok &= b->drv->cuMemAddressFree(b->at[side], b->count * b->piece) == CUDA_SUCCESS;
    }
    return ok;
}

static acre_status range_begin(struct range_bench *b) {
    acre_status status = acre_stream_create(b->device, ACRE_STREAM_NON_BLOCKING, &b->stream);
    if (status == ACRE_OK) {
        status = acre_range_budget_create(b->device, b->count * b->piece, &b->budget);
    }
    for (int side = 0; side < 2 && status == ACRE_OK; side++) {
        acre_range_options options = {
            .struct_size = sizeof options, .budget = b->budget, .piece_bytes = b->piece};
        status = acre_range_create(b->device, b->count * b->piece, &options, &b->ranges[side]);
    }
    return status;
}

static int range_end(struct range_bench *b) {
    return acre_range_destroy(b->ranges[0], b->stream) == ACRE_OK &&
           acre_range_destroy(b->ranges[1], b->stream) == ACRE_OK &&
           acre_range_budget_destroy(b->budget) == ACRE_OK &&
           acre_stream_destroy(b->device, b->stream) == ACRE_OK;
}

static int range_cases(struct range_bench *b) {
    return range_case(b, turn_reuse, "commit still mapped", "decommit") &&
           range_case(b, turn_map, "commit mapped", "unmapped by trim") &&
           range_case(b, turn_move, "commit moved", NULL) &&
           range_case(b, turn_new, "commit new", NULL);
}

int bench_range(struct bench *bench) {
    struct range_bench b = {
        .bench = bench, .device = bench_device(bench), .drv = bench_driver(bench)};
    b.info.struct_size = sizeof b.info;
    if (acre_device_get_info(b.device, &b.info)) {
        return 1;
    }
    b.piece = b.info.granularity_bytes ? b.info.granularity_bytes : 2 << 20;
    /* acre keeps unused chunks of up to 1/256 of the device's memory. */
    uint64_t most = b.info.total_bytes / 256 / b.piece;
    b.count = most < 1 ? 1 : most < RANGE_PIECES ? (unsigned)most : RANGE_PIECES;
    b.passes = bench_is_quick(bench) ? 1 : RANGE_PASSES;
    acre_status status = range_begin(&b);
    if (status == ACRE_E_UNSUPPORTED) {
        cli_say("suite range skipped: %s", acre_last_detail());
        return range_end(&b) ? 0 : 1;
    }
    if (status) {
        return 1;
    }
    bench_blame(bench, true);
    if (!range_floor_begin(&b)) {
        return 1;
    }
    bench_blame(bench, false);
    if (!range_cases(&b) || !range_end(&b)) {
        return 1;
    }
    bench_blame(bench, true);
    return range_floor_end(&b) ? 0 : 1;
}

/* Suspend and resume of one vec or one pool, against what the driver needs for the same bytes.
 *
 *   first suspend   contents kept in host memory that is new each time; floor: a copy to pinned
 *                   memory, which a program would have to allocate first
 *   resume          floor: a copy from pinned memory
 *   later suspend   with ACRE_SUSPEND_RETAIN: the host memory exists; same floor
 *   unchanged       told that nothing was written: copies nothing; floor: unmap, release
 *   dropped, back   contents dropped; floor: unmap and release; create, map and set access
 *   pool dropped    the same for a pool with one block
 *
 * All memory is written before it leaves, outside the measured time: releasing memory that nobody
 * has touched costs nothing on a soft device, whose pages exist from their first use on. Between
 * leaving and coming back all parties wait a moment: the driver clears released memory in the
 * background, and whoever creates memory at once waits for that (3 ms a GiB on an H200).
 *
 * The floor's copies reuse a window of pinned memory, so that it fits. After the last round every
 * byte of the kept vec is compared; copied bytes are counted. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "cli.h"

static const uint64_t suspend_window = UINT64_C(64) << 20;
static const uint64_t suspend_value = 0x5a;

struct suspend_bench {
    struct bench *bench;
    acre_device *device;
    const struct acre__driver *drv;
    acre_device_info info;
    uint64_t bytes;
    acre_vec *vec;
    acre_pool *pool;
    void *block;
    unsigned char *pinned;
    uint64_t copied, host; /* of the last suspend */
    /* The floor's own memory. */
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
};

/* Lets the driver clear what was released: 6 ms a GiB. */
static void suspend_settle(const struct suspend_bench *b) {
    uint64_t ns = (b->bytes >> 20) * 6000;
    const struct timespec moment = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&moment, NULL);
}

/* ---- the floor ---- */

static int floor_copy(struct suspend_bench *b, int to_device) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)acre_vec_data(b->vec);
    for (uint64_t done = 0; done < b->bytes; done += suspend_window) {
        uint64_t left = b->bytes - done, part = left < suspend_window ? left : suspend_window;
        CUresult code = to_device ? b->drv->cuMemcpyHtoDAsync(at + done, b->pinned, part, NULL)
                                  : b->drv->cuMemcpyDtoHAsync(b->pinned, at + done, part, NULL);
        if (code != CUDA_SUCCESS) {
            return 0;
        }
    }
    return b->drv->cuStreamSynchronize(NULL) == CUDA_SUCCESS;
}

static int floor_map(struct suspend_bench *b) {
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, (int)b->info.ordinal};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    CUmemAccessDesc access = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return b->drv->cuMemCreate(&b->handle, b->bytes, &prop, 0) == CUDA_SUCCESS &&
           b->drv->cuMemMap(b->at, b->bytes, 0, b->handle, 0) == CUDA_SUCCESS &&
           b->drv->cuMemSetAccess(b->at, b->bytes, &access, 1) == CUDA_SUCCESS;
}

static int floor_unmap(struct suspend_bench *b) {
    return b->drv->cuMemUnmap(b->at, b->bytes) == CUDA_SUCCESS &&
           b->drv->cuMemRelease(b->handle) == CUDA_SUCCESS;
}

/* ---- acre ---- */

/* Suspends the rule's memory. */
static int suspend_rule(struct suspend_bench *b, const acre_suspend_rule *rule, uint32_t flags,
                        acre_suspended **suspended) {
    acre_suspend_options options = {.struct_size = sizeof options,
                                    .how = ACRE_SUSPEND_STAY,
                                    .flags = flags,
                                    .rules = rule,
                                    .rule_count = 1};
    return acre_suspend(b->device, &options, suspended) == ACRE_OK;
}

/* Suspends the rule's memory and resumes it. */
static int suspend_cycle(struct suspend_bench *b, const acre_suspend_rule *rule, uint32_t flags,
                         double *ns) {
    acre_suspend_info info = {.struct_size = sizeof info};
    acre_suspended *suspended;
    uint64_t begin = cli_now_ns();
    if (!suspend_rule(b, rule, flags, &suspended)) {
        return 0;
    }
    uint64_t middle = cli_now_ns();
    ns[0] = (double)(middle - begin);
    if (acre_suspend_get_info(suspended, &info)) {
        return 0;
    }
    if (info.released_bytes < b->bytes) { /* a fast suspend of nothing is no figure */
        bench_finding(b->bench, "a suspend released %llu of %llu bytes",
                      (unsigned long long)info.released_bytes, (unsigned long long)b->bytes);
    }
    b->copied = info.copied_bytes;
    b->host = info.host_bytes;
    suspend_settle(b);
    middle = cli_now_ns();
    int ok = acre_resume(suspended) == ACRE_OK;
    ns[1] = (double)(cli_now_ns() - middle);
    return ok;
}

static acre_suspend_rule suspend_vec_rule(const struct suspend_bench *b, acre_suspend_how how) {
    return (acre_suspend_rule){
        .struct_size = sizeof(acre_suspend_rule), .object = acre_vec_data(b->vec), .how = how};
}

/* ---- turns ---- */

static int floor_copies(struct suspend_bench *b, double *ns) {
    uint64_t begin = cli_now_ns();
    int ok = floor_copy(b, 0);
    uint64_t middle = cli_now_ns();
    memset(b->pinned, (int)suspend_value, suspend_window);
    uint64_t again = cli_now_ns();
    ok = ok && floor_copy(b, 1);
    ns[0] = (double)(middle - begin);
    ns[1] = (double)(cli_now_ns() - again);
    return ok;
}

static int turn_first(void *user, unsigned party, double *ns) {
    struct suspend_bench *b = user;
    acre_suspend_rule rule = suspend_vec_rule(b, ACRE_SUSPEND_KEEP);
    if (party) {
        return floor_copies(b, ns);
    }
    return acre_suspend_forget(b->device) == ACRE_OK && suspend_cycle(b, &rule, 0, ns);
}

static int turn_later(void *user, unsigned party, double *ns) {
    struct suspend_bench *b = user;
    acre_suspend_rule rule = suspend_vec_rule(b, ACRE_SUSPEND_KEEP);
    return party ? floor_copies(b, ns) : suspend_cycle(b, &rule, ACRE_SUSPEND_RETAIN, ns);
}

static int floor_maps(struct suspend_bench *b, double *ns) {
    int ok = floor_map(b) &&
             b->drv->cuMemsetD8Async(b->at, (unsigned char)suspend_value, b->bytes, NULL) ==
                 CUDA_SUCCESS &&
             b->drv->cuStreamSynchronize(NULL) == CUDA_SUCCESS;
    uint64_t begin = cli_now_ns();
    ok = ok && floor_unmap(b);
    ns[0] = (double)(cli_now_ns() - begin);
    suspend_settle(b);
    begin = cli_now_ns();
    ok = ok && floor_map(b);
    ns[1] = (double)(cli_now_ns() - begin);
    return floor_unmap(b) && ok;
}

/* Runs floor_maps while acre's memory is away: both need not fit together. */
static int floor_maps_alone(struct suspend_bench *b, const acre_suspend_rule *rule, double *ns) {
    acre_suspended *suspended;
    if (!suspend_rule(b, rule, 0, &suspended)) {
        return 0;
    }
    int ok = floor_maps(b, ns);
    return acre_resume(suspended) == ACRE_OK && ok;
}

static int turn_unchanged(void *user, unsigned party, double *ns) {
    struct suspend_bench *b = user;
    acre_suspend_rule rule = suspend_vec_rule(b, ACRE_SUSPEND_KEEP);
    rule.is_unchanged = 1;
    return party ? floor_maps(b, ns) : suspend_cycle(b, &rule, ACRE_SUSPEND_RETAIN, ns);
}

static int suspend_write(struct suspend_bench *b, void *p) {
    return acre_fill_sync(b->device, p, (uint8_t)suspend_value, b->bytes) == ACRE_OK;
}

static int turn_vec(void *user, unsigned party, double *ns) {
    struct suspend_bench *b = user;
    acre_suspend_rule rule = suspend_vec_rule(b, ACRE_SUSPEND_DROP);
    if (party) {
        return floor_maps_alone(b, &rule, ns);
    }
    return suspend_write(b, acre_vec_data(b->vec)) && suspend_cycle(b, &rule, 0, ns);
}

static int turn_pool(void *user, unsigned party, double *ns) {
    struct suspend_bench *b = user;
    acre_suspend_rule rule = {
        .struct_size = sizeof rule, .pool = b->pool, .how = ACRE_SUSPEND_DROP};
    if (party) {
        return floor_maps_alone(b, &rule, ns);
    }
    return suspend_write(b, b->block) && suspend_cycle(b, &rule, 0, ns);
}

/* ---- cases ---- */

static int suspend_case(struct suspend_bench *b, bench_turn_fn turn, const char *first,
                        const char *second) {
    static const char *const who[] = {"acre", "floor"};
    const char *const names[] = {first, second};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    if (!bench_rounds(b->bench, turn, b, 2, 2, ns)) {
        return 0;
    }
    for (unsigned k = 0; k < 2 && names[k]; k++) {
        char name[BENCH_NAME_BYTES];
        bench_case_name(names[k], b->bytes, name);
        for (unsigned i = 0; i < 2; i++) {
            bench_result(b->bench, name, who[i], ns[i][k] / 1e6, "ms");
        }
    }
    return 1;
}

/* Compares every byte of the vec. */
static int suspend_check(struct suspend_bench *b) {
    uint64_t wrong = 0;
    for (uint64_t done = 0; done < b->bytes; done += suspend_window) {
        uint64_t left = b->bytes - done, part = left < suspend_window ? left : suspend_window;
        memset(b->pinned, 0, suspend_window);
        if (acre_copy_sync(b->device, b->pinned, (char *)acre_vec_data(b->vec) + done, part)) {
            return 0;
        }
        for (uint64_t i = 0; i < part; i++) {
            wrong += b->pinned[i] != suspend_value;
        }
    }
    if (wrong) {
        bench_finding(b->bench, "%llu bytes are wrong after a resume", (unsigned long long)wrong);
    }
    return 1;
}

static int suspend_kept(struct suspend_bench *b) {
    char name[BENCH_NAME_BYTES];
    if (acre_fill_sync(b->device, acre_vec_data(b->vec), (uint8_t)suspend_value, b->bytes) ||
        !suspend_case(b, turn_first, "first suspend", "resume")) {
        return 0;
    }
    bench_case_name("host bytes / kept", b->bytes, name);
    bench_result(b->bench, name, "acre", (double)b->host / (double)b->bytes, "ratio");
    if (!suspend_case(b, turn_later, "later suspend", NULL) || !suspend_check(b) ||
        !suspend_case(b, turn_unchanged, "suspend unchanged", NULL)) {
        return 0;
    }
    bench_case_name("copied if unchanged", b->bytes, name);
    bench_result(b->bench, name, "acre", (double)b->copied, "bytes");
    if (!suspend_check(b) || acre_suspend_forget(b->device) || acre_vec_destroy(b->vec, NULL)) {
        return 0;
    }
    b->vec = NULL;
    return acre_trim(b->device) == ACRE_OK;
}

/* The pool's memory comes after the vec's has left for good: both need not fit together. */
static int suspend_dropped(struct suspend_bench *b) {
    acre_pool_options options = {.struct_size = sizeof options};
    if (!suspend_case(b, turn_vec, "vec dropped", "vec back") || acre_vec_destroy(b->vec, NULL) ||
        acre_trim(b->device)) {
        return 0;
    }
    b->vec = NULL;
    return acre_pool_create(b->device, &options, &b->pool) == ACRE_OK &&
           acre_pool_alloc(b->pool, b->bytes, 0, NULL, &b->block) == ACRE_OK &&
           suspend_case(b, turn_pool, "pool dropped", "pool back") &&
           acre_pool_free(b->pool, b->block, NULL) == ACRE_OK &&
           acre_pool_destroy(b->pool, NULL, NULL) == ACRE_OK && acre_trim(b->device) == ACRE_OK;
}

/* One size, with a new vec of it; the cases destroy the vec. */
static int suspend_size(struct suspend_bench *b, int (*cases)(struct suspend_bench *)) {
    bench_blame(b->bench, true);
    if (b->drv->cuMemAddressReserve(&b->at, b->bytes, 0, 0, 0) != CUDA_SUCCESS) {
        return 0;
    }
    bench_blame(b->bench, false);
    if (acre_vec_create(b->device, 1, NULL, &b->vec) || acre_vec_grow(b->vec, b->bytes, NULL) ||
        !cases(b)) {
        return 0;
    }
    bench_blame(b->bench, true);
    return b->drv->cuMemAddressFree(b->at, b->bytes) == CUDA_SUCCESS;
}

/* All sizes that fit. The first one is for quick runs only. */
static int suspend_sizes(struct suspend_bench *b, const uint64_t *wanted, size_t count,
                         const struct bench_room *room, int (*cases)(struct suspend_bench *)) {
    const size_t skipped = bench_is_quick(b->bench) ? 0 : 1;
    uint64_t sizes[BENCH_SIZES];
    count = bench_sizes(b->bench, wanted + skipped, count - skipped, room, wanted[0], sizes);
    for (size_t i = 0; i < count; i++) {
        b->bytes = sizes[i];
        if (!suspend_size(b, cases)) {
            return 0;
        }
    }
    return 1;
}

int bench_suspend(struct bench *bench) {
    static const uint64_t kept[] = {UINT64_C(4) << 20, UINT64_C(64) << 20, UINT64_C(16) << 30};
    static const uint64_t dropped[] = {UINT64_C(4) << 20, UINT64_C(64) << 20, UINT64_C(16) << 30,
                                       UINT64_C(64) << 30};
    const struct bench_room kept_room = {.device_blocks = 2, .host_blocks = 1};
    const struct bench_room dropped_room = {.device_blocks = 1};
    struct suspend_bench b = {
        .bench = bench, .device = bench_device(bench), .drv = bench_driver(bench)};
    void *pinned = NULL;
    b.info.struct_size = sizeof b.info;
    if (acre_device_get_info(b.device, &b.info)) {
        return 1;
    }
    if (!b.info.has_vmm) {
        cli_say("suite suspend skipped: the device cannot map device memory");
        return 0;
    }
    if (acre_mem_alloc(b.device, ACRE_KIND_PINNED, suspend_window, 0, &pinned)) {
        return 1;
    }
    b.pinned = pinned;
    if (!suspend_sizes(&b, kept, sizeof kept / sizeof kept[0], &kept_room, suspend_kept) ||
        !suspend_sizes(&b, dropped, sizeof dropped / sizeof dropped[0], &dropped_room,
                       suspend_dropped)) {
        return 1;
    }
    return acre_mem_free(b.device, pinned) == ACRE_OK ? 0 : 1;
}

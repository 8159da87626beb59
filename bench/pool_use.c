/* How fast a GPU accesses the memory of a pool, compared with cuMemAlloc and with other mappings.
 *
 * The case copies the first half of 8 GiB to the second, with a kernel and with cuMemcpyDtoDAsync.
 * Bytes read and written both count: 8 GiB in total. Each way (pool_use_ways.c) is created,
 * measured and destroyed in turn, seven times, so that all get the same physical memory about
 * equally often. The suite prints each layout (address, and chunks as the driver reports them),
 * since that could explain a difference. */
#include "pool_use.h"

#include <stdio.h>
#include <string.h>

#include "cli.h"

/* Without nvcc there is no kernel for a GPU. */
#ifdef ACRE_HAVE_KERNELS
extern const unsigned char acre__pool_kernels_fatbin[];
static const unsigned char *const use_image = acre__pool_kernels_fatbin;
#else
static const unsigned char *const use_image = NULL;
#endif

enum {
    USE_ROUNDS = 7,
    USE_COPIES = 5, /* timed for one place, after a warm-up */
    USE_MOST_WAYS = 24,
    USE_THREADS = 256,
    USE_BLOCKS_EACH = 8 /* per multiprocessor, which has room for 2048 threads */
};

enum use_copier { USE_KERNEL, USE_DTOD, USE_COPIERS };

struct use {
    struct pool_bench *p;
    size_t half;
    CUmodule module;
    CUfunction kernel;
    acre_event begin, end;
    double gbs[USE_MOST_WAYS][USE_COPIERS][USE_ROUNDS];
};

/* ---- one copy ---- */

static int use_refused(const struct use *use, const char *call, CUresult result) {
    const char *name = NULL;
    char text[128];
    if (use->p->drv->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) {
        name = "unknown";
    }
    snprintf(text, sizeof text, "use: %s failed: %s", call, name);
    bench_blame(use->p->bench, false);
    bench_reason(use->p->bench, text);
    return 0;
}

static int use_copy(const struct use *use, enum use_copier copier, const struct use_place *place) {
    const struct acre__driver *drv = use->p->drv;
    CUstream stream = use->p->streams[0];
    CUdeviceptr to = place->to, from = place->from;
    unsigned long long count = place->bytes / 16;
    void *params[] = {&to, &from, &count};
    CUresult result =
        copier == USE_DTOD
            ? drv->cuMemcpyDtoDAsync(to, from, place->bytes, stream)
            : drv->cuLaunchKernel(use->kernel, use->p->info.multiprocessors * USE_BLOCKS_EACH, 1, 1,
                                  USE_THREADS, 1, 1, 0, stream, params, NULL);
    return result ? use_refused(use, copier == USE_DTOD ? "cuMemcpyDtoDAsync" : "cuLaunchKernel",
                                result)
                  : 1;
}

static int use_time(const struct use *use, enum use_copier copier, const struct use_place *place,
                    double *gbs) {
    acre_device *device = use->p->device;
    acre_stream stream = use->p->streams[0];
    double rates[USE_COPIES];
    bench_blame(use->p->bench, false);
    for (int i = -1; i < USE_COPIES; i++) {
        float ms = 0;
        if (acre_event_record(device, use->begin, stream) || !use_copy(use, copier, place) ||
            acre_event_record(device, use->end, stream) || acre_event_sync(device, use->end) ||
            acre_event_elapsed(device, use->begin, use->end, &ms)) {
            return 0;
        }
        if (i >= 0) {
            rates[i] = 2 * (double)place->bytes / ((double)ms * 1e6);
        }
    }
    *gbs = bench_median(rates, USE_COPIES);
    return 1;
}

/* ---- the layout ---- */

/* Chunks from `at` to `end`; 0 if the driver cannot tell. */
static uint64_t use_chunks(const struct use *use, uint64_t at, uint64_t end, uint64_t *least,
                           uint64_t *most) {
    const struct acre__driver *drv = use->p->drv;
    uint64_t count = 0;
    while (at < end) {
        size_t bytes = 0;
        CUdeviceptr base = 0;
        if (drv->cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at) ||
            drv->cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, at) ||
            base + bytes <= at) {
            return 0;
        }
        *least = bytes < *least ? bytes : *least;
        *most = bytes > *most ? bytes : *most;
        at = base + bytes;
        count++;
    }
    return count;
}

static void use_describe(const struct use *use, const struct use_place *place) {
    const struct use_way *way = place->way;
    uint64_t least = UINT64_MAX, most = 0;
    char text[4][CLI_NUMBER_BYTES], name[BENCH_NAME_BYTES];
    uint64_t end = place->to == place->from + place->bytes ? place->to + place->bytes
                                                           : place->from + place->bytes;
    uint64_t count = use_chunks(use, place->from, end, &least, &most);
    if (place->to + place->bytes != end) {
        uint64_t more = use_chunks(use, place->to, place->to + place->bytes, &least, &most);
        count = count && more ? count + more : 0;
    }
    cli_say("suite pool: use, %s (%s): source 0x%llx (aligned to %s), destination 0x%llx (aligned "
            "to %s); %llu chunks of %s to %s",
            way->name, way->who, (unsigned long long)place->from,
            cli_bytes(place->from & -place->from, text[0]), (unsigned long long)place->to,
            cli_bytes(place->to & -place->to, text[1]), (unsigned long long)count,
            cli_bytes(count ? least : 0, text[2]), cli_bytes(most, text[3]));
    snprintf(name, sizeof name, "use, %s", way->name);
    bench_detail(use->p->bench, name, way->who, (double)count, "chunks");
}

/* ---- rounds ---- */

static int use_round(struct use *use, unsigned round) {
    const struct use_way *way;
    for (unsigned i = 0; (way = use_way(i)); i++) {
        struct use_place place;
        if (!use_is_possible(use->p, way)) {
            continue;
        }
        if (!use_make(use->p, way, use->half, &place)) {
            return 0;
        }
        if (round == 0) {
            use_describe(use, &place);
        }
        for (int copier = 0; copier < USE_COPIERS; copier++) {
            if (!use_time(use, (enum use_copier)copier, &place, &use->gbs[i][copier][round])) {
                return 0;
            }
        }
        if (!use_unmake(use->p, &place)) {
            return 0;
        }
    }
    return 1;
}

static void use_report(struct use *use) {
    static const char *const words[USE_COPIERS] = {"use, kernel", "use, cuMemcpyDtoD"};
    const struct use_way *way;
    struct bench *bench = use->p->bench;
    for (int copier = 0; copier < USE_COPIERS; copier++) {
        double plain = bench_median(use->gbs[1][copier], USE_ROUNDS);
        for (unsigned i = 0; (way = use_way(i)); i++) {
            double gbs = bench_median(use->gbs[i][copier], USE_ROUNDS);
            char name[2 * BENCH_NAME_BYTES];
            if (!use_is_possible(use->p, way)) {
                continue;
            }
            snprintf(name, sizeof name, "%s: %s", words[copier], way->name);
            bench_result(bench, name, way->who, gbs, "GB/s");
            if (i != 1) {
                snprintf(name, sizeof name, "%s: %s / cuMemAlloc", words[copier], way->name);
                (copier == USE_KERNEL ? bench_result : bench_detail)(bench, name, way->who,
                                                                     gbs / plain, "times");
            }
        }
    }
}

/* ---- the case ---- */

static int use_begin(struct use *use) {
    struct pool_bench *p = use->p;
    CUresult result = p->drv->cuModuleLoadData(&use->module, use_image);
    if (result) {
        return use_refused(use, "cuModuleLoadData", result);
    }
    result = p->drv->cuModuleGetFunction(&use->kernel, use->module, "pool_copy");
    if (result) {
        return use_refused(use, "cuModuleGetFunction", result);
    }
    return acre_event_create(p->device, ACRE_EVENT_TIMING, &use->begin) == ACRE_OK &&
           acre_event_create(p->device, ACRE_EVENT_TIMING, &use->end) == ACRE_OK;
}

static int use_end(struct use *use) {
    struct pool_bench *p = use->p;
    return acre_event_destroy(p->device, use->begin) == ACRE_OK &&
           acre_event_destroy(p->device, use->end) == ACRE_OK &&
           p->drv->cuModuleUnload(use->module) == CUDA_SUCCESS;
}

int pool_use(struct pool_bench *p) {
    static struct use use;
    if (p->drv->is_soft || !use_image) {
        cli_say("suite pool: use skipped: %s",
                p->drv->is_soft
                    ? "it needs a GPU"
                    : "this tool was built without nvcc, so it has no kernel for a GPU");
        return 1;
    }
    /* 1 GiB is the largest chunk of any way. */
    use = (struct use){.p = p, .half = (size_t)(bench_is_quick(p->bench) ? 1 : 4) << 30};
    if (!pool_has_room(p, "use", 2 * use.half + ((uint64_t)1 << 30))) {
        return 1;
    }
    int ok = use_begin(&use);
    for (unsigned round = 0; ok && round < USE_ROUNDS; round++) {
        ok = use_round(&use, round);
    }
    if (ok) { /* after a failure, more calls could replace the detail */
        use_report(&use);
        ok = use_end(&use);
    }
    return ok;
}

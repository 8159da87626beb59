/* Copies of all sizes and directions: by acre and by the driver. The floor of pageable copies is
 * the driver's copy of pinned memory, which is limited by the link only.
 *
 * A figure is the time of one copy, from queueing it to its completion. The turns of all parties
 * walk through buffers of the largest size: each continues where the previous one ended, so that a
 * small copy does not find its bytes in a cache because the previous party read them. Bytes copied
 * count once, also for copies inside the device.
 *
 * The first copy of pageable memory in a program creates acre's pinned buffers. Case "first"
 * measures such a copy: acre_trim has freed them before. The driver's buffers exist already. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "cli.h"

enum copy_way { COPY_H2D, COPY_D2H, COPY_D2D };
enum copy_host { COPY_PAGEABLE, COPY_FIRST, COPY_UNTOUCHED, COPY_PINNED, COPY_NO_HOST };
enum copy_party { COPY_ACRE, COPY_DRIVER, COPY_FLOOR };

struct copy_case {
    const char *name;
    enum copy_way way;
    enum copy_host host;
    unsigned parties; /* how many take part, in the order of enum copy_party */
    uint64_t least_bytes;
};

struct copies {
    acre_device *device;
    const struct acre__driver *drv;
    acre_stream stream;
    CUstream driver_stream;
    char *pageable;      /* from malloc, touched */
    void *pinned;        /* from acre */
    void *driver_pinned; /* from cuMemHostAlloc */
    void *memory[2];     /* device memory */
    uint64_t whole;      /* bytes of each buffer */
    uint64_t at;         /* offset of the next copy */
    /* The current case. */
    const struct copy_case *what;
    uint64_t bytes;
    unsigned count; /* copies of one turn */
};

#define COPY_MIB (UINT64_C(1) << 20)

/* A turn copies at least this much, in up to 64 copies: reading the clock then does not matter. */
#define COPY_TURN_BYTES (4 * COPY_MIB)

static unsigned copy_count(uint64_t bytes) {
    uint64_t count = COPY_TURN_BYTES / bytes;
    return (unsigned)(count < 1 ? 1 : count > 64 ? 64 : count);
}

/* ---- one copy ---- */

static int copy_by_driver(const struct copies *c, char *to, const char *from) {
    CUdeviceptr target = (CUdeviceptr)(uintptr_t)to, source = (CUdeviceptr)(uintptr_t)from;
    CUresult code;
    switch (c->what->way) {
    case COPY_H2D:
        code = c->drv->cuMemcpyHtoDAsync(target, from, c->bytes, c->driver_stream);
        break;
    case COPY_D2H:
        code = c->drv->cuMemcpyDtoHAsync(to, source, c->bytes, c->driver_stream);
        break;
    default:
        code = c->drv->cuMemcpyDtoDAsync(target, source, c->bytes, c->driver_stream);
    }
    return code == CUDA_SUCCESS && c->drv->cuStreamSynchronize(c->driver_stream) == CUDA_SUCCESS;
}

static int copy_by_acre(const struct copies *c, char *to, const char *from) {
    return acre_copy(c->device, to, from, c->bytes, c->stream) == ACRE_OK &&
           acre_stream_sync(c->device, c->stream) == ACRE_OK;
}

static int copy_one(const struct copies *c, unsigned party, char *host) {
    char *near = (char *)c->memory[0] + c->at;
    char *other = c->what->way == COPY_D2D ? (char *)c->memory[1] + c->at : host;
    char *to = c->what->way == COPY_D2H ? other : near;
    const char *from = c->what->way == COPY_D2H ? near : other;
    return party == COPY_ACRE ? copy_by_acre(c, to, from) : copy_by_driver(c, to, from);
}

/* Returns the host buffer of a party's next copy, or MAP_FAILED if out of memory. */
static char *copy_host(const struct copies *c, unsigned party) {
    if (party == COPY_FLOOR) {
        return (char *)c->driver_pinned + c->at;
    }
    switch (c->what->host) {
    case COPY_PAGEABLE:
    case COPY_FIRST:
        return c->pageable + c->at;
    case COPY_UNTOUCHED:
        return mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    case COPY_PINNED:
        return (char *)(party == COPY_ACRE ? c->pinned : c->driver_pinned) + c->at;
    default:
        return NULL;
    }
}

static int copy_turn(void *user, unsigned party, double *ns) {
    struct copies *c = user;
    uint64_t spent = 0;
    for (unsigned i = 0; i < c->count; i++) {
        char *host = copy_host(c, party);
        if (host == MAP_FAILED ||
            (c->what->host == COPY_FIRST && party == COPY_ACRE && acre_trim(c->device))) {
            return 0;
        }
        uint64_t begin = cli_now_ns();
        int ok = copy_one(c, party, host);
        spent += cli_now_ns() - begin;
        if (c->what->host == COPY_UNTOUCHED && party != COPY_FLOOR) {
            munmap(host, c->bytes);
        }
        if (!ok) {
            return 0;
        }
        c->at = c->at + 2 * c->bytes <= c->whole ? c->at + c->bytes : 0;
    }
    *ns = (double)spent / c->count;
    return 1;
}

/* ---- the suite ---- */

static int copy_measure(struct bench *bench, struct copies *c) {
    static const char *const who[] = {"acre", "driver", "floor"};
    double ns[BENCH_PARTIES][BENCH_FIGURES];
    char name[BENCH_NAME_BYTES];
    c->count = copy_count(c->bytes);
    c->at = 0;
    if (!bench_rounds(bench, copy_turn, c, c->what->parties, 1, ns)) {
        return 0;
    }
    bench_case_name(c->what->name, c->bytes, name);
    for (unsigned i = 0; i < c->what->parties; i++) {
        if (c->bytes >= COPY_MIB) { /* bytes per nanosecond are 10^9 bytes per second */
            bench_result(bench, name, who[i], (double)c->bytes / ns[i][0], "GB/s");
        } else {
            bench_result(bench, name, who[i], ns[i][0] / 1e3, "us");
        }
    }
    return 1;
}

static int copy_begin(struct copies *c) {
    if (acre_stream_create(c->device, ACRE_STREAM_NON_BLOCKING, &c->stream) ||
        acre_mem_alloc(c->device, ACRE_KIND_PINNED, c->whole, 0, &c->pinned) ||
        acre_mem_alloc(c->device, ACRE_KIND_DEVICE, c->whole, 0, &c->memory[0]) ||
        acre_mem_alloc(c->device, ACRE_KIND_DEVICE, c->whole, 0, &c->memory[1]) ||
        acre_fill(c->device, c->memory[0], 1, c->whole, c->stream) ||
        acre_fill(c->device, c->memory[1], 2, c->whole, c->stream) ||
        acre_stream_sync(c->device, c->stream) ||
        c->drv->cuStreamCreate(&c->driver_stream, CU_STREAM_NON_BLOCKING) ||
        c->drv->cuMemHostAlloc(&c->driver_pinned, c->whole, 0)) {
        return 0;
    }
    c->pageable = cli_alloc(c->whole);
    memset(c->pageable, 3, c->whole);
    memset(c->pinned, 4, c->whole);
    memset(c->driver_pinned, 5, c->whole);
    return 1;
}

/* Frees everything. NULL is a no-op for acre's functions. */
static void copy_end(struct copies *c) {
    free(c->pageable);
    if (c->driver_pinned) {
        c->drv->cuMemFreeHost(c->driver_pinned);
    }
    if (c->driver_stream) {
        c->drv->cuStreamDestroy(c->driver_stream);
    }
    acre_mem_free(c->device, c->pinned);
    acre_mem_free(c->device, c->memory[0]);
    acre_mem_free(c->device, c->memory[1]);
    acre_stream_destroy(c->device, c->stream);
}

int bench_copy(struct bench *bench) {
    static const uint64_t wanted[] = {4096,         65536,         262144,         COPY_MIB,
                                      4 * COPY_MIB, 64 * COPY_MIB, 1024 * COPY_MIB};
    /* One pageable buffer, two pinned, one untouched; the fifth is for staging and the rest. */
    static const struct bench_room room = {.device_blocks = 2, .host_blocks = 5};
    static const struct copy_case cases[] = {
        {"h2d pageable", COPY_H2D, COPY_PAGEABLE, 3, 0},
        {"d2h pageable", COPY_D2H, COPY_PAGEABLE, 3, 0},
        {"h2d pageable first", COPY_H2D, COPY_FIRST, 3, 4 * COPY_MIB},
        {"d2h pageable first", COPY_D2H, COPY_FIRST, 3, 4 * COPY_MIB},
        {"d2h pageable untouched", COPY_D2H, COPY_UNTOUCHED, 3, 64 * COPY_MIB},
        {"h2d pinned", COPY_H2D, COPY_PINNED, 2, 0},
        {"d2h pinned", COPY_D2H, COPY_PINNED, 2, 0},
        {"d2d", COPY_D2D, COPY_NO_HOST, 2, 0},
    };
    uint64_t sizes[BENCH_SIZES];
    size_t count =
        bench_sizes(bench, wanted, sizeof wanted / sizeof wanted[0], &room, 4 * COPY_MIB, sizes);
    struct copies c = {.device = bench_device(bench), .drv = bench_driver(bench)};
    if (count == 0) {
        return 1;
    }
    c.whole = sizes[count - 1];
    int ok = copy_begin(&c);
    for (size_t i = 0; ok && i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; ok && k < count; k++) {
            c.what = &cases[i];
            c.bytes = sizes[k];
            bool is_large = c.bytes >= cases[i].least_bytes;
            if (is_large || (bench_is_quick(bench) && k + 1 == count)) {
                ok = copy_measure(bench, &c);
            }
        }
    }
    if (ok) { /* after a failure, more calls could replace the detail */
        copy_end(&c);
    } else {
        free(c.pageable);
    }
    return !ok;
}

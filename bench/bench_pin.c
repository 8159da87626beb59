/* Allocating and freeing pinned memory: by acre and by the driver. The floor is the operating
 * system's part of it: one thread maps pages, touches and unmaps them, without pinning. */
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "cli.h"

enum pin_party { PIN_ACRE, PIN_DRIVER, PIN_FLOOR, PIN_PARTIES };
enum { PIN_BLOCKS = 16 };

struct pins {
    acre_device *device;
    const struct acre__driver *drv;
    size_t page;
    size_t bytes;   /* of a block */
    unsigned count; /* blocks of one turn */
    void *blocks[PIN_BLOCKS];
};

static int pin_map(const struct pins *pins, void **p) {
    char *mapped =
        mmap(NULL, pins->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return 0;
    }
    for (size_t i = 0; i < pins->bytes; i += pins->page) {
        ((volatile char *)mapped)[i] = 0;
    }
    *p = mapped;
    return 1;
}

static int pin_make(const struct pins *pins, unsigned party, void **p) {
    switch (party) {
    case PIN_ACRE:
        return acre_mem_alloc(pins->device, ACRE_KIND_PINNED, pins->bytes, 0, p) == ACRE_OK;
    case PIN_DRIVER:
        return pins->drv->cuMemHostAlloc(p, pins->bytes, 0) == CUDA_SUCCESS;
    default:
        return pin_map(pins, p);
    }
}

static int pin_give(const struct pins *pins, unsigned party, void *p) {
    switch (party) {
    case PIN_ACRE:
        return acre_mem_free(pins->device, p) == ACRE_OK;
    case PIN_DRIVER:
        return pins->drv->cuMemFreeHost(p) == CUDA_SUCCESS;
    default:
        return munmap(p, pins->bytes) == 0;
    }
}

/* ns[0] is the time to allocate a block, ns[1] the time to free it. */
static int pin_turn(void *user, unsigned party, double *ns) {
    struct pins *pins = user;
    uint64_t begin = cli_now_ns();
    for (unsigned i = 0; i < pins->count; i++) {
        if (!pin_make(pins, party, &pins->blocks[i])) {
            return 0;
        }
    }
    uint64_t middle = cli_now_ns();
    for (unsigned i = 0; i < pins->count; i++) {
        if (!pin_give(pins, party, pins->blocks[i])) {
            return 0;
        }
    }
    ns[0] = (double)(middle - begin) / pins->count;
    ns[1] = (double)(cli_now_ns() - middle) / pins->count;
    return 1;
}

int bench_pin(struct bench *bench) {
    static const char *const who[PIN_PARTIES] = {"acre", "driver", "floor"};
    static const char *const what[2] = {"alloc", "free"};
    static const uint64_t mib = UINT64_C(1) << 20;
    static const uint64_t wanted[] = {4096, 65536, mib, 16 * mib, 256 * mib, 1024 * mib};
    static const struct bench_room room = {.device_blocks = 0, .host_blocks = 2};
    uint64_t sizes[BENCH_SIZES];
    size_t count = bench_sizes(bench, wanted, sizeof wanted / sizeof wanted[0], &room, mib, sizes);
    struct pins pins = {.device = bench_device(bench),
                        .drv = bench_driver(bench),
                        .page = (size_t)sysconf(_SC_PAGESIZE)};
    if (pins.drv->is_soft) {
        cli_say("suite pin: driver figures are not comparable: the soft device maps pinned memory "
                "without touching it");
    }
    for (size_t i = 0; i < count; i++) {
        double ns[BENCH_PARTIES][BENCH_FIGURES];
        char name[BENCH_NAME_BYTES];
        pins.bytes = sizes[i];
        pins.count = sizes[i] < mib ? PIN_BLOCKS : 1;
        if (!bench_rounds(bench, pin_turn, &pins, PIN_PARTIES, 2, ns)) {
            return 1;
        }
        bool is_large = sizes[i] >= 16 * mib;
        for (unsigned k = 0; k < 2; k++) {
            bench_case_name(what[k], sizes[i], name);
            for (unsigned party = 0; party < PIN_PARTIES; party++) {
                bench_result(bench, name, who[party], ns[party][k] / (is_large ? 1e6 : 1e3),
                             is_large ? "ms" : "us");
            }
        }
    }
    return count == 0;
}

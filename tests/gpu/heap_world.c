#include "heap_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "soft/soft.h"
#include "heap_kernels.h"
#include "support/rounds.h"

#ifdef ACRE_HAVE_KERNELS
extern const unsigned char acre__heap_kernels_fatbin[], acre__heap_kernels_full_fatbin[],
    acre__heap_kernels_few_fatbin[];
static const unsigned char *heap_image = acre__heap_kernels_fatbin;
#else
static const unsigned char *heap_image = NULL;
#endif

enum { BLOCK = 128 };

static const struct {
    const char *name;
    acre_soft_kernel fn;
} heap_kernels[] = {
#define HEAP_KERNEL_ENTRY(name) {#name, name},
    HEAP_KERNEL_LIST(HEAP_KERNEL_ENTRY)
#undef HEAP_KERNEL_ENTRY
};

static struct heap_world heap_one;
static const char *heap_soft_warp; /* NULL: use a GPU */

void heap_arguments(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "soft"))
        heap_soft_warp = argc > 2 ? argv[2] : "32";
#ifdef ACRE_HAVE_KERNELS
    if (argc > 1 && !strcmp(argv[1], "full"))
        heap_image = acre__heap_kernels_full_fatbin;
    if (argc > 1 && !strcmp(argv[1], "few"))
        heap_image = acre__heap_kernels_few_fatbin;
#endif
    if (getenv("ACRE_TEST_ONLY"))
        cmocka_set_test_filter(getenv("ACRE_TEST_ONLY"));
}

static void setup_soft(struct heap_world *w) {
    setenv("ACRE_SOFT_BYTES", "96MiB", 1);
    setenv("ACRE_SOFT_WARP", heap_soft_warp, 1);
    acre__soft_reset();
    assert_int_equal(acre_open("soft", NULL, &w->dev), ACRE_OK);
    w->lanes = (uint32_t)atoi(heap_soft_warp);
    w->threads = ROUNDS(1024, 512);
    w->bytes = 24 * MIB;
}

static void setup_gpu(struct heap_world *w) {
    void *state;
    gpu_setup(&state);
    w->gpu = state;
    w->dev = w->gpu->dev;
    w->lanes = 32;
    w->is_memcheck = getenv("ACRE_TEST_MEMCHECK") != NULL;
    w->threads = w->is_memcheck ? 1 << 12 : 1 << 17;
    w->bytes = w->is_memcheck ? 256 * MIB : 4 * GIB;
    assert_int_equal(w->gpu->drv->cuModuleLoadData(&w->module, heap_image), CUDA_SUCCESS);
}

static uint64_t *words_make(struct heap_world *w, uint64_t count) {
    void *p;
    assert_int_equal(acre_mem_alloc(w->dev, ACRE_KIND_DEVICE, count * 8, 0, &p), ACRE_OK);
    return p;
}

int heap_setup(void **state) {
    struct heap_world *w = &heap_one;
    if (heap_soft_warp)
        setup_soft(w);
    else
        setup_gpu(w);
    assert_int_equal(acre_stream_create(w->dev, ACRE_STREAM_NON_BLOCKING, &w->stream), ACRE_OK);
    assert_int_equal(acre_event_create(w->dev, ACRE_EVENT_TIMING, &w->begin), ACRE_OK);
    assert_int_equal(acre_event_create(w->dev, ACRE_EVENT_TIMING, &w->end), ACRE_OK);
    w->job.at = words_make(w, w->threads);
    w->job.more = words_make(w, w->threads);
    w->job.counts = words_make(w, HEAP_COUNTS);
    *state = w;
    return 0;
}

int heap_teardown(void **state) {
    struct heap_world *w = *state;
    acre_status status = acre_mem_free(w->dev, w->job.at);
    status = status ? status : acre_mem_free(w->dev, w->job.more);
    status = status ? status : acre_mem_free(w->dev, w->job.counts);
    status = status ? status : acre_event_destroy(w->dev, w->begin);
    status = status ? status : acre_event_destroy(w->dev, w->end);
    status = status ? status : acre_stream_destroy(w->dev, w->stream);
    if (status)
        return -1;
    if (!w->gpu)
        return acre_close(w->dev) == ACRE_OK ? 0 : -1;
    void *gpu = w->gpu;
    w->gpu->drv->cuModuleUnload(w->module);
    return gpu_teardown(&gpu);
}

/* ---- launches ---- */

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A kernel that hangs must not occupy the GPU without bound: the end of the process ends the
 * kernel. */
static void wait_or_end(struct heap_world *w, const char *kernel, acre_stream stream) {
    uint64_t begin = now_ms(), most = w->gpu && !w->is_memcheck ? 20000 : 100000;
    acre_status status;
    while ((status = acre_stream_query(w->dev, stream)) == ACRE_E_NOT_READY) {
        if (now_ms() - begin > most) {
            fprintf(stderr, "kernel %s hangs; the program exits to end it\n", kernel);
            fflush(NULL);
            _exit(3);
        }
        if (!w->gpu)
            usleep(100);
    }
    if (status)
        fail_msg("kernel %s: %s (%s)", kernel, acre_status_text(status), acre_last_detail());
}

static void launch(struct heap_world *w, const char *kernel, acre_stream stream) {
    uint32_t blocks = (w->job.threads + BLOCK - 1) / BLOCK;
    w->job.lanes = w->lanes;
    if (w->gpu) {
        CUfunction function;
        void *params[] = {&w->job};
        assert_int_equal(w->gpu->drv->cuModuleGetFunction(&function, w->module, kernel),
                         CUDA_SUCCESS);
        assert_int_equal(w->gpu->drv->cuLaunchKernel(function, blocks, 1, 1, BLOCK, 1, 1, 0, stream,
                                                     params, NULL),
                         CUDA_SUCCESS);
        return;
    }
    for (size_t i = 0; i < sizeof heap_kernels / sizeof heap_kernels[0]; i++)
        if (!strcmp(heap_kernels[i].name, kernel)) {
            assert_int_equal(acre_soft_launch(w->dev, stream, heap_kernels[i].fn,
                                              (uint32_t[]){blocks, 1, 1}, (uint32_t[]){BLOCK, 1, 1},
                                              64, &w->job),
                             ACRE_OK);
            return;
        }
    fail_msg("no kernel named %s", kernel);
}

void heap_run_on(struct heap_world *w, const char *kernel, acre_stream stream) {
    float ms;
    assert_int_equal(acre_fill_sync(w->dev, w->job.counts, 0, HEAP_COUNTS * 8), ACRE_OK);
    assert_int_equal(acre_event_record(w->dev, w->begin, stream), ACRE_OK);
    launch(w, kernel, stream);
    assert_int_equal(acre_event_record(w->dev, w->end, stream), ACRE_OK);
    wait_or_end(w, kernel, stream);
    assert_int_equal(acre_event_elapsed(w->dev, w->begin, w->end, &ms), ACRE_OK);
    w->ms = (double)ms;
    assert_int_equal(acre_copy_sync(w->dev, w->counts, w->job.counts, HEAP_COUNTS * 8), ACRE_OK);
    if (w->counts[HEAP_WRONG])
        fail_msg("kernel %s: %llu checks failed, first in line %llu by thread %llu", kernel,
                 (unsigned long long)w->counts[HEAP_WRONG],
                 (unsigned long long)(w->counts[HEAP_WHERE] >> 32),
                 (unsigned long long)(w->counts[HEAP_WHERE] & 0xffffffff));
}

void heap_run(struct heap_world *w, const char *kernel) {
    heap_run_on(w, kernel, w->stream);
}

/* ---- heaps ---- */

void heap_begin(struct heap_world *w, uint64_t initial, uint64_t maximum) {
    acre_heap_options options = {.struct_size = sizeof options,
                                 .initial_bytes = initial,
                                 .limit_bytes = maximum ? maximum : initial,
                                 .step_bytes = heap_pick(w, 64 * MIB, 64 * MIB, 4 * MIB),
                                 .wait_ns = 5000000000};
    assert_int_equal(acre_heap_create(w->dev, &options, &w->heap), ACRE_OK);
    assert_int_equal(acre_heap_get_handle(w->heap, &w->job.h), ACRE_OK);
    assert_int_equal(acre_fill_sync(w->dev, w->job.at, 0, w->threads * 8), ACRE_OK);
    assert_int_equal(acre_fill_sync(w->dev, w->job.more, 0, w->threads * 8), ACRE_OK);
    w->job.threads = w->threads;
    w->job.salt = 0;
    w->job.most = (uint64_t)1 << 24;
    heap_sizes(w, 16, 16, 0);
}

acre_heap_stats heap_stats(struct heap_world *w) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(acre_heap_get_stats(w->heap, &stats), ACRE_OK);
    return stats;
}

/* Allocates all memory of the heap: first in segments, by several threads, then in one block. */
static void end_all_is_there(struct heap_world *w, uint64_t bytes) {
    assert_int_equal(acre_fill_sync(w->dev, w->job.at, 0, w->threads * 8), ACRE_OK);
    w->job.threads = 64;
    w->job.most = bytes;
    heap_sizes(w, 2 * MIB, 2 * MIB, 0);
    heap_run(w, "heap_fill");
    assert_int_equal(w->counts[HEAP_BLOCKS], bytes / (2 * MIB));
    assert_int_equal(w->counts[HEAP_NULLS], 64);
    heap_run(w, "heap_drain");
    assert_int_equal(w->counts[HEAP_BLOCKS], bytes / (2 * MIB));
    w->job.threads = 1;
    w->job.most = 1;
    heap_sizes(w, bytes, bytes, 0);
    heap_run(w, "heap_fill");
    assert_int_equal(w->counts[HEAP_BLOCKS], 1);
    heap_run(w, "heap_drain");
}

void heap_end(struct heap_world *w, uint64_t wrong) {
    uint64_t blocks, bytes;
    acre_heap_stats stats = heap_stats(w);
    assert_int_equal(stats.double_frees + stats.foreign_frees + stats.interior_frees, wrong);
    assert_int_equal(stats.live_blocks + stats.live_bytes, 0);
    assert_int_equal(acre_heap_grow(w->heap, stats.limit_bytes), ACRE_OK);
    end_all_is_there(w, stats.limit_bytes);
    assert_int_equal(acre_heap_trim(w->heap, 0), ACRE_OK);
    stats = heap_stats(w);
    assert_int_equal(stats.free_bytes, stats.mapped_bytes);
    assert_int_equal(acre_heap_destroy(w->heap, &blocks, &bytes), ACRE_OK);
    assert_int_equal(blocks + bytes, 0);
}

void heap_sizes(struct heap_world *w, uint64_t low, uint64_t high, uint32_t is_log) {
    w->job.low = low;
    w->job.high = high;
    w->job.is_log = is_log;
}

uint32_t heap_threads_for(const struct heap_world *w, uint64_t bytes, uint64_t room) {
    uint32_t threads = w->threads;
    while (threads > 1 && threads * bytes > room)
        threads /= 2;
    return threads;
}

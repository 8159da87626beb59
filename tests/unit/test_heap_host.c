/* The host side of heaps, on a soft device: growing, trimming, statistics, walks, leaks, requests
 * of kernels.
 *
 * The tests play the kernel on a copy of the heap's records and write it back (heap_bring.h). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/space_fixture.h"

#include "heap/heap_image.h"
#include "unit/heap_bring.h"

struct world {
    acre_device *dev;
    acre_heap *heap;
    uint64_t free_bytes;
    acre_heap_handle image; /* copy of the heap's records */
};

static void world_begin(struct world *w, uint64_t initial, uint64_t maximum, uint32_t flags) {
    acre_heap_options options = {.struct_size = sizeof options,
                                 .initial_bytes = initial,
                                 .limit_bytes = maximum,
                                 .step_bytes = 4 * MIB,
                                 .flags = flags};
    memset(w, 0, sizeof *w);
    w->dev = space_open_soft(128 * MIB, 1, 0);
    w->free_bytes = space_free_bytes(w->dev);
    api_ok(acre_heap_create(w->dev, &options, &w->heap));
}

static void world_end(struct world *w) {
    api_ok(acre_heap_destroy(w->heap, NULL, NULL));
    space_close_empty(w->dev, w->free_bytes);
}

static void kernel_begin(struct world *w) {
    w->image = heap_bring(w->heap);
}

static void kernel_end(struct world *w) {
    heap_put_back(w->heap, w->image);
}

static acre_heap_stats world_stats(struct world *w) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_heap_get_stats(w->heap, &stats));
    return stats;
}

TEST(heap_new_one_is_empty_and_has_what_was_asked_for) {
    struct world w;
    acre_heap_handle h;
    world_begin(&w, 3 * MIB, 33 * MIB, 0);
    acre_heap_stats stats = world_stats(&w);
    assert_int_equal(stats.mapped_bytes, 4 * MIB);
    assert_int_equal(stats.limit_bytes, 34 * MIB);
    assert_int_equal(stats.free_bytes, 4 * MIB);
    assert_int_equal(stats.live_blocks + stats.live_bytes + stats.failed + stats.grows, 0);
    assert_int_equal(stats.classes[ACRE_HEAP_CLASSES - 1].bytes, 32768);
    api_ok(acre_heap_get_handle(w.heap, &h));
    assert_int_equal((uintptr_t)h.base % ACRE__HEAP_SEGMENT_BYTES, 0);
    assert_int_equal(h.max_segments, 17);
    world_end(&w);
}

TEST(heap_grows_by_hand_up_to_its_maximum) {
    struct world w;
    world_begin(&w, 2 * MIB, 20 * MIB, ACRE_HEAP_NO_SERVICE);
    kernel_begin(&w);
    assert_non_null(acre_heap_malloc(w.image, 2 * MIB));
    assert_null(acre_heap_malloc(w.image, 1));
    kernel_end(&w);
    api_ok(acre_heap_grow(w.heap, 7 * MIB));
    assert_int_equal(world_stats(&w).mapped_bytes, 8 * MIB);
    api_ok(acre_heap_grow(w.heap, 3 * MIB)); /* a no-op: it has more */
    assert_int_equal(world_stats(&w).mapped_bytes, 8 * MIB);
    kernel_begin(&w);
    assert_non_null(acre_heap_malloc(w.image, 6 * MIB));
    assert_null(acre_heap_malloc(w.image, 1));
    assert_int_equal(w.image.control->answers & 1, 0);
    kernel_end(&w);
    assert_int_equal(acre_heap_grow(w.heap, 21 * MIB), ACRE_E_LIMIT);
    api_ok(acre_heap_grow(w.heap, 20 * MIB));
    kernel_begin(&w);
    assert_int_equal(w.image.control->answers & 1, 1); /* the heap is at its maximum */
    kernel_end(&w);
    acre_heap_stats stats = world_stats(&w);
    assert_int_equal(stats.live_bytes, 8 * MIB);
    assert_int_equal(stats.failed, 2);
    assert_int_equal(stats.grows, 2);
    world_end(&w);
}

TEST(heap_without_memory_stays_as_it_was) {
    struct world w;
    world_begin(&w, 4 * MIB, 512 * MIB, 0);
    assert_int_equal(acre_heap_grow(w.heap, 400 * MIB), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(world_stats(&w).mapped_bytes, 4 * MIB);
    api_ok(acre_heap_grow(w.heap, 8 * MIB));
    world_end(&w);
}

struct seen {
    uint64_t blocks, bytes;
    char *last;
};

static int see(void *user, void *block, uint64_t bytes) {
    struct seen *seen = user;
    assert_true((char *)block >= seen->last);
    seen->last = (char *)block + bytes;
    seen->blocks++;
    seen->bytes += bytes;
    return seen->blocks == 100000;
}

TEST(heap_walk_and_statistics_agree_and_leaks_are_told) {
    static const size_t sizes[] = {1, 100, 5000, 32768, 70000, 3 << 20};
    struct world w;
    struct seen seen = {0, 0, NULL};
    void *kept[6];
    uint64_t blocks = 0, bytes = 0;
    world_begin(&w, 32 * MIB, 64 * MIB, 0);
    kernel_begin(&w);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < (i < 4 ? 100 : 2); k++) {
            void *p = acre_heap_malloc(w.image, sizes[i]);
            assert_non_null(p);
            if (k % 2)
                acre_heap_free(w.image, kept[i]);
            else
                kept[i] = p;
        }
    kernel_end(&w);
    api_ok(acre_heap_walk(w.heap, see, &seen));
    acre_heap_stats stats = world_stats(&w);
    blocks = 4 * 50 + 2;
    bytes = 50 * (16 + 128 + 6144 + 32768) + 80640 + 4 * MIB;
    assert_int_equal(seen.blocks, blocks);
    assert_int_equal(seen.bytes, bytes);
    assert_int_equal(stats.live_blocks, blocks);
    assert_int_equal(stats.live_bytes, bytes);
    assert_int_equal(stats.peak_bytes, bytes);
    assert_int_equal(stats.classes[0].live_blocks, 50);
    assert_int_equal(stats.classes[0].free_blocks, 4096 - 50);
    assert_int_equal(stats.large_classes[3].bytes, 80640);
    assert_int_equal(stats.large_classes[3].live_blocks, 1);
    assert_int_equal(stats.large_classes[3].free_blocks, 12);
    api_ok(acre_heap_destroy(w.heap, &seen.blocks, &seen.bytes));
    assert_int_equal(seen.blocks, blocks);
    assert_int_equal(seen.bytes, bytes);
    space_close_empty(w.dev, w.free_bytes);
}

TEST(heap_trim_gives_back_what_is_free_at_the_end) {
    struct world w;
    world_begin(&w, 2 * MIB, 64 * MIB, 0);
    for (uint64_t bytes = 4 * MIB; bytes <= 16 * MIB; bytes += 2 * MIB)
        api_ok(acre_heap_grow(w.heap, bytes));
    kernel_begin(&w);
    char *small = acre_heap_malloc(w.image, 100), *large = acre_heap_malloc(w.image, 5 * MIB);
    assert_true(small && large);
    kernel_end(&w);
    api_ok(acre_heap_trim(w.heap, 0)); /* the large block is at the top */
    uint64_t kept = world_stats(&w).mapped_bytes;
    assert_true(kept >= (uint64_t)(large - w.heap->h.base) + 6 * MIB);
    kernel_begin(&w);
    acre_heap_free(w.image, large);
    kernel_end(&w);
    api_ok(acre_heap_trim(w.heap, 3 * MIB));
    assert_int_equal(world_stats(&w).mapped_bytes, 4 * MIB);
    kernel_begin(&w);
    acre_heap_free(w.image, small);
    assert_int_equal(w.image.control->double_frees, 0);
    kernel_end(&w);
    api_ok(acre_heap_trim(w.heap, 0));
    assert_true(world_stats(&w).mapped_bytes <= 2 * MIB);
    api_ok(acre_heap_grow(w.heap, 8 * MIB));
    kernel_begin(&w);
    assert_non_null(acre_heap_malloc(w.image, 8 * MIB));
    kernel_end(&w);
    world_end(&w);
}

TEST(heap_reset_forgets_all_blocks) {
    struct world w;
    world_begin(&w, 8 * MIB, 8 * MIB, 0);
    kernel_begin(&w);
    for (int i = 0; i < 1000; i++)
        assert_non_null(acre_heap_malloc(w.image, 3000));
    acre_heap_free(w.image, w.image.base + 1);
    kernel_end(&w);
    assert_int_equal(world_stats(&w).interior_frees, 1);
    api_ok(acre_heap_reset(w.heap));
    acre_heap_stats stats = world_stats(&w);
    assert_int_equal(stats.live_blocks + stats.interior_frees, 0);
    assert_int_equal(stats.free_bytes, 8 * MIB);
    assert_int_equal(stats.peak_bytes, 1000 * 3072);
    kernel_begin(&w);
    assert_non_null(acre_heap_malloc(w.image, 8 * MIB));
    kernel_end(&w);
    world_end(&w);
}

/* Posts a request as a kernel would and waits for the host's answer. Returns the committed
 * segments. */
static uint64_t ask(struct world *w, uint64_t bytes) {
    acre_heap *heap = w->heap;
    acre__heap_wish *wish = &heap->pinned->wish;
    __atomic_store_n(&wish->bytes, bytes, __ATOMIC_RELEASE);
    acre__lock_take(&heap->lock);
    uint64_t number = heap->answers + 1;
    acre__lock_give(&heap->lock);
    __atomic_store_n(&wish->number, number, __ATOMIC_RELEASE);
    for (int i = 0; i < 10 * PATIENCE_MS; i++) {
        if (__atomic_load_n(&wish->answers, __ATOMIC_ACQUIRE) >> 1 == number)
            return __atomic_load_n(&wish->committed, __ATOMIC_ACQUIRE);
        usleep(100);
    }
    fail_msg("the heap's service did not answer");
    return 0;
}

TEST(heap_service_answers_wishes_of_kernels) {
    struct world w;
    world_begin(&w, 2 * MIB, 32 * MIB, 0);
    assert_int_equal(ask(&w, 100), 3);     /* a step of 4 MiB */
    assert_int_equal(ask(&w, 9 * MIB), 8); /* more than a step */
    /* A request above the maximum fails, but later ones do not. */
    assert_int_equal(ask(&w, 100 * MIB), 8);
    assert_int_equal(ask(&w, 100), 10);
    assert_int_equal(ask(&w, 10 * MIB), 15);
    assert_int_equal(ask(&w, 100), 16);
    kernel_begin(&w);
    assert_int_equal(w.image.control->answers & 1, 1); /* the heap is at its maximum */
    kernel_end(&w);
    assert_int_equal(world_stats(&w).asks, 6);
    world_end(&w);
    world_begin(&w, 64 * MIB, 256 * MIB, 0);
    assert_int_equal(ask(&w, 100), 36); /* an eighth of the heap is more than a step */
    world_end(&w);
}

TEST(heap_refuses_what_it_cannot_do) {
    struct world w;
    acre_heap *none = (acre_heap *)&w;
    acre_heap_options options = {.struct_size = sizeof options};
    world_begin(&w, 2 * MIB, 4 * MIB, 0);
    assert_int_equal(acre_heap_create(w.dev, NULL, NULL), ACRE_E_NULL);
    assert_int_equal(acre_heap_create(NULL, NULL, &none), ACRE_E_NULL);
    assert_null(none);
    options.flags = 8;
    assert_int_equal(acre_heap_create(w.dev, &options, &none), ACRE_E_OPTIONS);
    options = (acre_heap_options){
        .struct_size = sizeof options, .initial_bytes = 8 * MIB, .limit_bytes = 4 * MIB};
    assert_int_equal(acre_heap_create(w.dev, &options, &none), ACRE_E_INVALID);
    options = (acre_heap_options){.struct_size = sizeof options, .limit_bytes = (uint64_t)1 << 40};
    assert_int_equal(acre_heap_create(w.dev, &options, &none), ACRE_E_INVALID);
    none = (acre_heap *)&w;
    assert_int_equal(acre_heap_grow(none, 1), ACRE_E_HANDLE);
    assert_int_equal(acre_heap_trim(NULL, 1), ACRE_E_NULL);
    assert_int_equal(acre_heap_reset(none), ACRE_E_HANDLE);
    assert_int_equal(acre_heap_get_stats(w.heap, NULL), ACRE_E_NULL);
    assert_int_equal(acre_heap_get_handle(w.heap, NULL), ACRE_E_NULL);
    assert_int_equal(acre_heap_walk(w.heap, NULL, NULL), ACRE_E_NULL);
    assert_int_equal(acre_heap_destroy(none, NULL, NULL), ACRE_E_HANDLE);
    api_ok(acre_heap_destroy(NULL, NULL, NULL));
    /* Neither acre_mem_free nor cuMemFree accepts the heap's memory. */
    assert_int_equal(acre_mem_free(w.dev, w.heap->h.base), ACRE_E_KIND);
    struct acre__current current;
    space_push(w.dev, &current);
    for (uint64_t at = 0; at < 4 * MIB; at += 2 * MIB - 32) {
        uint64_t address = (uintptr_t)w.heap->h.base + at;
        assert_int_equal(w.dev->drv->cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    }
    assert_int_equal(w.dev->drv->cuMemFree((uintptr_t)w.heap->h.control), CUDA_ERROR_INVALID_VALUE);
    acre__device_pop(w.dev, &current);
    assert_int_equal(world_stats(&w).free_bytes, 2 * MIB);
    world_end(&w);
}

TEST(heap_of_a_closed_device_ends_with_it) {
    struct world w;
    world_begin(&w, 2 * MIB, 4 * MIB, 0);
    api_ok(acre_close(w.dev));
    assert_int_equal(acre_heap_grow(w.heap, 4 * MIB), ACRE_E_HANDLE);
}

int main(void) {
    return tests_run("heap_host");
}

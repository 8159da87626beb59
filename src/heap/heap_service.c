/* Growth while kernels run, and growth ahead of use. A thread for each heap polls the request in
 * pinned memory and maps more memory. It polls every 100 us, since a GPU cannot wake a thread. A
 * kernel that has to wait does so for about a millisecond anyway, and polling costs half a percent
 * of one processor. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "heap/heap.h"

/* The number of segments that the limit leaves. */
static uint64_t serve_left(const acre_heap *heap) {
    return heap->limit > heap->committed ? heap->limit - heap->committed : 0;
}

/* A heap that kernels fill grows by an eighth of its size at a time, but at most by this, so that a
 * large one grows a few times only. */
#define SERVE_MOST ((UINT64_C(512) << 20) / ACRE__HEAP_SEGMENT_BYTES)

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Grows by an eighth of the heap, by a step, or by the request, whichever is most. If there is no
 * memory for that, grows by the request. */
static acre_status serve_grow(acre_heap *heap, uint64_t bytes) {
    uint64_t wanted = larger(acre__heap_segments_for(bytes), 1), left = serve_left(heap);
    uint64_t part = heap->committed / 8 < SERVE_MOST ? heap->committed / 8 : SERVE_MOST;
    uint64_t more = larger(wanted, larger(heap->step, part));
    if (wanted > left)
        return acre__fail(ACRE_E_LIMIT,
                          "a kernel requested %llu bytes, more than the heap's limit leaves",
                          (unsigned long long)bytes);
    more = more < left ? more : left;
    acre_status status = acre__heap_grow_to(heap, heap->committed + more, 0);
    if (status == ACRE_E_DEVICE_MEMORY && more > wanted)
        status = acre__heap_grow_to(heap, heap->committed + wanted, 0);
    return status;
}

void acre__heap_retry(acre_heap *heap, int is_handle) {
    const uint64_t second = 1000000000;
    uint64_t now = acre__now_ns(), since = acre__load(&heap->short_ns, memory_order_relaxed);
    if (!since || now - heap->retry_ns < second || (!is_handle && now - since < second))
        return;
    acre__store(&heap->short_ns, 0, memory_order_relaxed);
    heap->retry_ns = now;
    heap->is_full = heap->committed >= heap->limit;
    heap->is_refused = 0;
    acre__heap_say(heap);
}

int acre__heap_serve(acre_heap *heap) {
    acre__lock_take(&heap->lock);
    acre__heap_wish *wish = &heap->pinned->wish;
    uint64_t number = __atomic_load_n(&wish->number, __ATOMIC_ACQUIRE);
    int is_asked = number == heap->answers + 1;
    if (is_asked) {
        uint64_t before = heap->committed, bytes = __atomic_load_n(&wish->bytes, __ATOMIC_ACQUIRE);
        heap->asks++;
        acre_status status = serve_grow(heap, bytes);
        /* After a lack of memory no kernel waits again until the program adds memory or
         * acre__heap_retry allows it. A request above the limit does not mark the heap as full, nor
         * does a single driver failure. */
        if (acre__is_no_memory(status)) {
            heap->is_full = 1;
            acre__store(&heap->short_ns, acre__now_ns(), memory_order_relaxed);
        }
        if (heap->committed == before)
            acre__log(ACRE_LOG_WARN, "heap", "%s: a kernel's request for %llu bytes failed: %s",
                      heap->dev->label, (unsigned long long)bytes, acre_last_detail());
        if (status)
            acre__heap_say(heap);
    } else if (acre__load(&heap->short_ns, memory_order_relaxed)) {
        acre__heap_retry(heap, 0);
    } else if (heap->is_unsaid && !acre__device_is_lost(heap->dev)) {
        (void)acre__heap_publish(heap);
    }
    acre__lock_give(&heap->lock);
    return is_asked;
}

/* ---- growing ahead ---- */

/* Counts the segments that are entirely free, from their tree, and those that were never opened.
 * Kernels may change the tree at the same time: the count is approximate. */
static acre_status ahead_free(acre_heap *heap, uint64_t *count) {
    uint32_t leaves = acre__heap_leaves(heap->h.max_segments);
    uint64_t opened = 0, at = (uint64_t)(uintptr_t)acre__heap_tree(acre__heap_of(heap->h),
                                                                   ACRE__HEAP_RUNS - 1) +
                              acre__heap_level(0) * sizeof(uint64_t);
    uint64_t *words = malloc(leaves * sizeof *words);
    if (!words)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to read the records of a heap");
    acre_status status = acre__heap_opened(heap, &opened);
    if (status == ACRE_OK)
        status = acre__heap_read(heap, words, at, leaves * sizeof *words);
    *count = opened < heap->committed ? heap->committed - opened : 0;
    for (uint32_t i = 0; i < leaves && !status; i++)
        *count += acre__heap_popc64(words[i]);
    free(words);
    return status;
}

void acre__heap_grow_ahead(acre_heap *heap) {
    uint64_t there = 0, left = serve_left(heap);
    if (heap->is_refused || !left || ahead_free(heap, &there) || there >= heap->ahead)
        return;
    uint64_t more = heap->ahead - there > heap->step ? heap->ahead - there : heap->step;
    acre_status status = acre__heap_grow_to(heap, heap->committed + (more < left ? more : left),
                                            !heap->wish_address);
    heap->is_refused = status && status != ACRE_E_SUSPENDED;
    if (heap->is_refused)
        acre__log(ACRE_LOG_WARN, "heap", "%s: a heap cannot grow ahead: %s", heap->dev->label,
                  acre_last_detail());
}

/* ---- the thread ---- */

/* Polls for requests, and every tenth time checks how much memory is free, which takes two
 * copies. */
static void *service_main(void *user) {
    acre_heap *heap = user;
    const struct timespec nap = {0, 100000};
    for (uint32_t i = 0; !acre__load(&heap->is_ending, memory_order_acquire); i++) {
        if (acre__heap_serve(heap))
            continue;
        if (heap->ahead && i % 10 == 0) {
            acre__lock_take(&heap->lock);
            acre__heap_grow_ahead(heap);
            acre__lock_give(&heap->lock);
        }
        nanosleep(&nap, NULL);
    }
    return NULL;
}

/* Under the seeded scheduler there is no thread, since it would not follow the scheduler's order.
 * Tests call acre__heap_serve themselves. */
acre_status acre__heap_service_begin(acre_heap *heap) {
    if (!heap->wish_address || acre__device_is_seeded(heap->dev))
        return ACRE_OK;
    int code = acre__thread_start(&heap->thread, service_main, heap);
    heap->has_thread = code == 0;
    return code ? acre__fail(ACRE_E_SYSTEM, "cannot start the service thread of a heap: %s",
                             strerror(code))
                : ACRE_OK;
}

void acre__heap_service_end(acre_heap *heap) {
    if (!heap->has_thread)
        return;
    acre__store(&heap->is_ending, 1, memory_order_release);
    pthread_join(heap->thread, NULL);
    heap->has_thread = 0;
}

/* Host pages: see host_pages.h. No state. */
#include "space/host_pages.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/round.h"
#include "base/status.h"
#include "base/thread.h"

#define PAGES_HUGE ((size_t)2 << 20)

enum {
    PAGES_STEP = 4 << 20, /* bytes that a thread claims at once; whole huge pages */
    /* Starting a thread costs about as much as touching this many bytes. Measured on the H200
     * machine, 1 GiB took 59 ms with 4 threads, 34 ms with 8, 22 ms with 16. */
    PAGES_PER_THREAD = 8 << 20,
    /* Below this size, touching the pages is faster than reading /proc/meminfo. */
    PAGES_CHECK_LEAST = 16 << 20
};

uint64_t acre__host_pages_available(void) {
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    fclose(file);
    return (uint64_t)kib << 10;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* Touches pages without changing what others write to them at the same time. */
static void step_touch(char *at, size_t bytes, size_t page) {
    if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0)
        return;
    for (size_t i = 0; i < bytes; i += page)
        __atomic_fetch_or(&at[i], 0, __ATOMIC_RELAXED);
}

/* Touches steps that no other thread has claimed, from the front. */
static void *pages_touch(void *user) {
    struct acre__touching *touching = user;
    for (;;) {
        size_t begin = atomic_fetch_add_explicit(&touching->next, PAGES_STEP, memory_order_relaxed);
        if (begin >= touching->bytes)
            return NULL;
        size_t left = touching->bytes - begin, step = left < PAGES_STEP ? left : PAGES_STEP;
        step_touch(touching->at + begin, step, touching->page);
    }
}

/* Starts the threads for `bytes`, besides the caller. Continues with fewer if a thread cannot be
 * started. */
static void touching_begin(struct acre__touching *touching, char *at, size_t bytes) {
    size_t cores = acre__cpu_count();
    size_t count = bytes / PAGES_PER_THREAD;
    count = count > ACRE__TOUCHERS ? ACRE__TOUCHERS : count;
    count = count > cores ? cores : count;
    touching->at = at;
    touching->bytes = bytes;
    touching->page = (size_t)sysconf(_SC_PAGESIZE);
    touching->count = 0;
    atomic_store_explicit(&touching->next, 0, memory_order_relaxed);
    while (touching->count + 1 < count &&
           acre__thread_start(&touching->threads[touching->count], pages_touch, touching) == 0)
        touching->count++;
}

void acre__host_pages_end(struct acre__touching *touching) {
    pages_touch(touching);
    for (unsigned i = 0; i < touching->count; i++)
        pthread_join(touching->threads[i], NULL);
}

acre_status acre__host_pages_check(size_t bytes) {
    if (bytes < PAGES_CHECK_LEAST)
        return ACRE_OK;
    uint64_t available = acre__host_pages_available();
    if (!available || bytes <= available)
        return ACRE_OK;
    return acre__fail(ACRE_E_HOST_MEMORY,
                      "%zu bytes requested, %llu bytes are available on the host", bytes,
                      (unsigned long long)available);
}

acre_status acre__host_pages_begin(size_t bytes, void **p, size_t *whole_bytes,
                                   struct acre__touching *touching) {
    size_t unit = bytes >= PAGES_HUGE ? PAGES_HUGE : (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - 2 * PAGES_HUGE)
        return acre__fail(ACRE_E_HOST_MEMORY, "%zu bytes requested, more than any host has", bytes);
    size_t whole = acre__round_up(bytes, unit);
    acre_status status = acre__host_pages_check(whole);
    if (status)
        return status;
    size_t slack = unit == PAGES_HUGE ? PAGES_HUGE : 0; /* for alignment to a huge page */
    char *mapped =
        mmap(NULL, whole + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return acre__fail(ACRE_E_HOST_MEMORY, "mmap of %zu bytes failed", whole + slack);
    char *at = mapped;
    if (slack) {
        at = mapped + (PAGES_HUGE - (uintptr_t)mapped % PAGES_HUGE) % PAGES_HUGE;
        if (at > mapped)
            munmap(mapped, (size_t)(at - mapped));
        size_t behind = slack - (size_t)(at - mapped);
        if (behind)
            munmap(at + whole, behind);
        madvise(at, whole, MADV_HUGEPAGE); /* a failure only makes it slower */
    }
    /* A child would share pinned pages: the parent's next write would copy them, and the device
     * would keep using the old ones. Newer kernels copy all of them at the fork instead. */
    madvise(at, whole, MADV_DONTFORK);
    touching_begin(touching, at, whole);
    *p = at;
    *whole_bytes = whole;
    return ACRE_OK;
}

acre_status acre__host_pages_make(size_t bytes, void **p, size_t *whole_bytes) {
    struct acre__touching touching;
    acre_status status = acre__host_pages_begin(bytes, p, whole_bytes, &touching);
    if (status == ACRE_OK)
        acre__host_pages_end(&touching);
    return status;
}

void acre__host_pages_free(void *p, size_t whole_bytes) {
    munmap(p, whole_bytes);
}

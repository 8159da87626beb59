/* Host pages: see host_pages.h. No state. */
#include "space/host_pages.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

#define PAGES_HUGE ((size_t)2 << 20)

enum {
    PAGES_THREADS = 16,
    /* A thread costs about as much as touching this; measured on the H200 machine, 1 GiB took 59 ms
     * with 4 threads, 34 with 8, 22 with 16. */
    PAGES_PER_THREAD = 8 << 20,
    /* Reading what the system has takes longer than touching a few pages. */
    PAGES_CHECK_LEAST = 16 << 20
};

/* What the system could give without swapping; 0 when it does not say. */
static uint64_t pages_available(void) {
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

struct pages_part {
    volatile char *at;
    size_t bytes, page;
};

static void *pages_touch(void *user) {
    const struct pages_part *part = user;
    for (size_t i = 0; i < part->bytes; i += part->page)
        part->at[i] = 0;
    return NULL;
}

/* First touch by several threads, in whole huge pages; a thread that cannot be had is done without.
 */
static void pages_touch_all(char *at, size_t bytes) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = bytes / PAGES_PER_THREAD;
    count = count > PAGES_THREADS ? PAGES_THREADS : count;
    count = cores > 0 && count > (size_t)cores ? (size_t)cores : count;
    count = count ? count : 1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t share = (bytes / count + PAGES_HUGE - 1) / PAGES_HUGE * PAGES_HUGE;
    struct pages_part parts[PAGES_THREADS];
    pthread_t threads[PAGES_THREADS];
    int is_started[PAGES_THREADS] = {0};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    for (size_t i = 0; i < count; i++) {
        size_t begin = i * share < bytes ? i * share : bytes;
        size_t end = begin + share < bytes && i + 1 < count ? begin + share : bytes;
        parts[i] = (struct pages_part){at + begin, end - begin, page};
        if (i + 1 < count)
            is_started[i] = pthread_create(&threads[i], NULL, pages_touch, &parts[i]) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (size_t i = 0; i < count; i++)
        if (!is_started[i])
            pages_touch(&parts[i]);
    for (size_t i = 0; i < count; i++)
        if (is_started[i])
            pthread_join(threads[i], NULL);
}

acre_status acre__host_pages_check(size_t bytes) {
    if (bytes < PAGES_CHECK_LEAST)
        return ACRE_OK;
    uint64_t available = pages_available();
    if (!available || bytes <= available)
        return ACRE_OK;
    return acre__fail(ACRE_E_HOST_MEMORY, "%zu bytes wanted, %llu are available on the host", bytes,
                      (unsigned long long)available);
}

acre_status acre__host_pages_make(size_t bytes, void **p, size_t *whole_bytes) {
    size_t unit = bytes >= PAGES_HUGE ? PAGES_HUGE : (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - 2 * PAGES_HUGE)
        return acre__fail(ACRE_E_HOST_MEMORY, "no host has %zu bytes", bytes);
    size_t whole = (bytes + unit - 1) / unit * unit;
    acre_status status = acre__host_pages_check(whole);
    if (status)
        return status;
    size_t slack = unit == PAGES_HUGE ? PAGES_HUGE : 0; /* to begin at a huge page */
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
        madvise(at, whole, MADV_HUGEPAGE); /* without huge pages it is only slower */
    }
    /* Pinned pages shared with a child would be copied at the parent's next write, and the device
     * would go on with the old ones; newer kernels copy all of them at the fork instead. */
    madvise(at, whole, MADV_DONTFORK);
    pages_touch_all(at, whole);
    *p = at;
    *whole_bytes = whole;
    return ACRE_OK;
}

void acre__host_pages_free(void *p, size_t whole_bytes) {
    munmap(p, whole_bytes);
}

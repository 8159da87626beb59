/* Pinned host memory, allocated faster than the driver does it: mapped by acre with huge pages,
 * first touched by several threads, and registered in one piece at the same time. */
#ifndef ACRE_SPACE_HOST_PAGES_H
#define ACRE_SPACE_HOST_PAGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* On a machine with 16 cores 1 GiB was touched in 59 ms by 4 threads, in 34 by 8, in 22 by 16. */
enum { ACRE__TOUCHERS = 16 };

/* Pages that threads are touching for the first time. */
struct acre__touching {
    char *at;
    size_t bytes, page;
    _Atomic size_t next; /* first offset that no thread has claimed */
    pthread_t threads[ACRE__TOUCHERS];
    unsigned count;
};

/* Bytes that the system can provide without swapping (MemAvailable); 0 if unknown. */
uint64_t acre__host_pages_available(void);

/* Returns ACRE_E_HOST_MEMORY if the system has less available. Checked in advance: once pages are
 * touched or pinned, the system kills the program instead of failing the call. */
acre_status acre__host_pages_check(size_t bytes);

/* Checks, maps and starts to touch pages. *whole_bytes is the number of bytes mapped: `bytes`
 * rounded up. The caller may register the pages at once: the driver pins from the front, behind the
 * threads, and touches pages itself if it overtakes them. A forked child does not have these pages.
 * After success the caller must call acre__host_pages_end, which helps and waits. */
acre_status acre__host_pages_begin(size_t bytes, void **p, size_t *whole_bytes,
                                   struct acre__touching *touching);
void acre__host_pages_end(struct acre__touching *touching);

/* acre__host_pages_begin and acre__host_pages_end in one call. */
acre_status acre__host_pages_make(size_t bytes, void **p, size_t *whole_bytes);
void acre__host_pages_free(void *p, size_t whole_bytes);

#endif

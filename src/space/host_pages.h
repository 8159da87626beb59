/* Host memory to be page-locked, made faster than the driver makes it: mapped by us with huge
 * pages, first touched by several threads at once, and registered in one piece while they do. */
#ifndef ACRE_SPACE_HOST_PAGES_H
#define ACRE_SPACE_HOST_PAGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* On a machine with 16 cores 1 GiB was touched in 59 ms by 4 threads, in 34 by 8, in 22 by 16. */
enum { ACRE__TOUCHERS = 16 };

/* Pages whose first touch is under way. */
struct acre__touching {
    char *at;
    size_t bytes, page;
    _Atomic size_t next; /* from here on nobody has begun */
    pthread_t threads[ACRE__TOUCHERS];
    unsigned count;
};

/* What the system could give without swapping; 0 when it does not say. */
uint64_t acre__host_pages_available(void);

/* ACRE_E_HOST_MEMORY when the system does not have that much: it would rather kill the program than
 * say so once pages are touched or pinned, so it is asked before. */
acre_status acre__host_pages_check(size_t bytes);

/* Checks, maps and begins to touch; *whole_bytes is what was mapped, `bytes` rounded up. They may
 * be registered at once: the driver pins from the front on, behind the threads, and where it
 * overtakes them touches pages itself. A child made by fork does not have them. After success `end`
 * must be called, which helps and waits. */
acre_status acre__host_pages_begin(size_t bytes, void **p, size_t *whole_bytes,
                                   struct acre__touching *touching);
void acre__host_pages_end(struct acre__touching *touching);

/* Both in one. */
acre_status acre__host_pages_make(size_t bytes, void **p, size_t *whole_bytes);
void acre__host_pages_free(void *p, size_t whole_bytes);

#endif

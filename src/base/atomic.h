/* C11 atomics. In test builds (ACRE_TEST_POINTS) each operation is preceded by a scheduling point,
 * where the seeded scheduler may run another virtual thread. In the shipped library the macros are
 * the plain operations. Callers always write the memory order out. */
#ifndef ACRE_BASE_ATOMIC_H
#define ACRE_BASE_ATOMIC_H

#include <stdatomic.h>

#include "base/lock.h"

#ifdef ACRE_TEST_POINTS
#define acre__point() acre__sched_point()
#else
#define acre__point() ((void)0)
#endif

#define acre__load(p, order) (acre__point(), atomic_load_explicit((p), (order)))
#define acre__store(p, v, order) (acre__point(), atomic_store_explicit((p), (v), (order)))
#define acre__exchange(p, v, order) (acre__point(), atomic_exchange_explicit((p), (v), (order)))
#define acre__fetch_add(p, v, order) (acre__point(), atomic_fetch_add_explicit((p), (v), (order)))
#define acre__fetch_sub(p, v, order) (acre__point(), atomic_fetch_sub_explicit((p), (v), (order)))
#define acre__cas_weak(p, expected, v, success, failure)                                           \
    (acre__point(),                                                                                \
     atomic_compare_exchange_weak_explicit((p), (expected), (v), (success), (failure)))
#define acre__cas(p, expected, v, success, failure)                                                \
    (acre__point(),                                                                                \
     atomic_compare_exchange_strong_explicit((p), (expected), (v), (success), (failure)))

/* Loads a pointer that the caller only dereferences. Every processor that acre runs on orders a
 * load after the load that produced its address (data dependency). So the load needs no acquire,
 * which on some processors delays all later loads. memory_order_consume is meant for this, but
 * compilers turn it into an acquire. The thread sanitizer does not track dependencies. */
#if defined(__SANITIZE_THREAD__) || defined(ACRE_SANITIZE_tsan)
#define acre__load_dependent(p) atomic_load_explicit((p), memory_order_acquire)
#else
#define acre__load_dependent(p) atomic_load_explicit((p), memory_order_relaxed)
#endif

#endif

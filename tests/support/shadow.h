/* For tests with real threads: records the first line where a thread failed, and which blocks of a
 * pool are live. Recording takes no lock, so the test adds no ordering to that of the pool.
 *
 * The map marks the first and the last 256 bytes of a block. It takes addresses modulo 1 GiB: the
 * small blocks of one pool lie closer together than that. */
#ifndef ACRE_TESTS_SHADOW_H
#define ACRE_TESTS_SHADOW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

static _Atomic int thread_failed_line; /* 0: none failed */

static inline void *fail_at(int line) {
    int none = 0;
    atomic_compare_exchange_strong(&thread_failed_line, &none, line);
    return NULL;
}
#define thread_must(condition)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return fail_at(__LINE__);                                                              \
    } while (0)

enum { SHADOW_GRAIN = 256, SHADOW_GRAINS = 1 << 22 };

static _Atomic uint8_t shadow_map[SHADOW_GRAINS];

static inline _Atomic uint8_t *shadow_at(const void *p) {
    return &shadow_map[(uintptr_t)p / SHADOW_GRAIN % SHADOW_GRAINS];
}

/* Marks a block as live. Returns 0 if the block, or one that overlaps it, is already live. */
static inline int shadow_begin(const void *p, size_t bytes) {
    _Atomic uint8_t *first = shadow_at(p), *last = shadow_at((const char *)p + bytes - 1);
    int is_new = !atomic_exchange_explicit(first, 1, memory_order_relaxed);
    if (last != first)
        is_new &= !atomic_exchange_explicit(last, 1, memory_order_relaxed);
    return is_new;
}

/* Removes the mark of a block. Call this before freeing the block. */
static inline void shadow_end(const void *p, size_t bytes) {
    atomic_store_explicit(shadow_at(p), 0, memory_order_relaxed);
    atomic_store_explicit(shadow_at((const char *)p + bytes - 1), 0, memory_order_relaxed);
}

/* Returns the number of marked grains. */
static inline size_t shadow_count(void) {
    size_t count = 0;
    for (size_t i = 0; i < SHADOW_GRAINS; i++)
        count += atomic_load_explicit(&shadow_map[i], memory_order_relaxed);
    return count;
}

#endif

/* Block arenas: memory for the threads of a thread block that is freed all at once. Part of
 * acre_heap.h, not to be included by itself. */
#ifndef ACRE_HEAP_ARENA_H
#define ACRE_HEAP_ARENA_H

/* An arena, for example in shared memory:
 *
 *   __shared__ acre_heap_block_arena arena;
 *   acre_heap_block_arena_open(h, &arena, 64 << 10);
 *   float *mine = (float *)acre_heap_block_arena_malloc(h, &arena, n * sizeof *mine);
 *   ...
 *   acre_heap_block_arena_close(h, &arena);
 *
 * An allocation is one addition to a word of the arena, which is fastest in shared memory. There is
 * no free for single allocations: closing or resetting the arena frees all of them. Do not allocate
 * from an arena that is closed: that memory would leak. */
typedef struct acre_heap_block_arena {
    char *base;           /* NULL: there was no memory */
    uint64_t bytes, used; /* used: may exceed bytes */
    uint64_t
        extra; /* address of the last block that did not fit; each has that of the one before */
} acre_heap_block_arena;

enum { ACRE__HEAP_ARENA_LINK = 16 }; /* bytes in front of a block of its own */

/* The arena may be in shared or in global memory, so these take any address. */
#ifdef __CUDACC__
ACRE__HEAP_FN uint64_t acre__heap_arena_add(uint64_t *p, uint64_t v) {
    uint64_t old;
    asm volatile("atom.relaxed.cta.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(p), "l"(v) : "memory");
    return old;
}
ACRE__HEAP_FN uint64_t acre__heap_arena_load(const uint64_t *p) {
    uint64_t v;
    asm volatile("ld.relaxed.cta.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
ACRE__HEAP_FN int acre__heap_arena_cas(uint64_t *p, uint64_t *expected, uint64_t v) {
    uint64_t wanted = *expected;
    asm volatile("atom.relaxed.cta.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(*expected)
                 : "l"(p), "l"(wanted), "l"(v)
                 : "memory");
    return *expected == wanted;
}
#else
#define acre__heap_arena_add(p, v) acre__heap_add64(p, v, relaxed)
#define acre__heap_arena_load(p) acre__heap_load64(p, relaxed)
#define acre__heap_arena_cas(p, expected, v) acre__heap_cas64(p, expected, v, relaxed)
#endif

/* Opens an arena with `bytes` of memory. All threads of the thread block make the call, with the
 * same arguments. Returns 0 if there is no memory; the arena is open even then, and each allocation
 * tries the heap. */
ACRE__HEAP_FN int acre_heap_block_arena_open(acre_heap_handle h, acre_heap_block_arena *arena,
                                             size_t bytes) {
    acre__heap_barrier(); /* all have finished with what the memory of `arena` was before */
    if (acre__heap_thread() == 0) {
        size_t rounded = bytes < SIZE_MAX - 15 ? (bytes + 15) & ~(size_t)15 : bytes;
        arena->base = (char *)acre_heap_malloc(h, rounded);
        arena->bytes = arena->base ? acre_heap_usable_size(h, arena->base) : 0;
        arena->used = 0;
        arena->extra = 0;
    }
    acre__heap_barrier();
    return arena->base != NULL;
}

/* Allocates at least `bytes` from an arena, aligned to 16; any thread of the thread block may make
 * the call. 0 bytes count as 1. What does not fit into the arena is a block of its own from the
 * heap. NULL if there is no memory. */
ACRE__HEAP_FN void *acre_heap_block_arena_malloc(acre_heap_handle h, acre_heap_block_arena *arena,
                                                 size_t bytes) {
    if (bytes > SIZE_MAX - 2 * ACRE__HEAP_ARENA_LINK)
        return acre_heap_malloc(h, SIZE_MAX); /* counts the failure */
    uint64_t rounded = bytes ? ((uint64_t)bytes + 15) & ~(uint64_t)15 : 16;
    if (rounded <= arena->bytes && acre__heap_arena_load(&arena->used) <= arena->bytes - rounded) {
        uint64_t at = acre__heap_arena_add(&arena->used, rounded);
        if (at <= arena->bytes - rounded)
            return arena->base + at;
    }
    uint64_t *block = (uint64_t *)acre_heap_malloc(h, (size_t)rounded + ACRE__HEAP_ARENA_LINK);
    if (!block)
        return NULL;
    uint64_t before = acre__heap_arena_load(&arena->extra);
    do
        *block = before;
    while (!acre__heap_arena_cas(&arena->extra, &before, (uint64_t)(uintptr_t)block));
    return (char *)block + ACRE__HEAP_ARENA_LINK;
}

/* Frees the blocks of their own; for one thread, when the others have finished. */
ACRE__HEAP_FN void acre__heap_arena_clear(acre_heap_handle h, acre_heap_block_arena *arena) {
    for (uint64_t at = arena->extra; at;) {
        uint64_t *block = (uint64_t *)(uintptr_t)at;
        at = *block;
        acre_heap_free(h, block);
    }
    arena->extra = 0;
    arena->used = 0;
}

/* Frees all allocations of an arena, which stays open and keeps its memory. All threads of the
 * thread block make the call. */
ACRE__HEAP_FN void acre_heap_block_arena_reset(acre_heap_handle h, acre_heap_block_arena *arena) {
    acre__heap_barrier();
    if (acre__heap_thread() == 0)
        acre__heap_arena_clear(h, arena);
    acre__heap_barrier();
}

/* Frees all allocations of an arena and its memory. All threads of the thread block make the call.
 * An arena must be closed before the kernel ends, or its memory leaks. */
ACRE__HEAP_FN void acre_heap_block_arena_close(acre_heap_handle h, acre_heap_block_arena *arena) {
    acre__heap_barrier();
    if (acre__heap_thread() == 0) {
        acre__heap_arena_clear(h, arena);
        acre_heap_free(h, arena->base);
        arena->base = NULL;
        arena->bytes = 0;
    }
    acre__heap_barrier();
}

#endif

/* Debug builds of the heap functions: for files that define ACRE_HEAP_DEBUG before they include
 * acre_heap.h. Part of acre_heap.h, not to be included by itself.
 *
 * A block gets 32 bytes more than requested, at its end. They are not in front, so the address
 * stays that of the heap block, and code that was built without debug can free it:
 *
 *   | requested bytes: poisoned by malloc and by free | canary, 16 bytes or more | mark, 16 bytes |
 *
 * The mark holds the requested size and a tag of the program. A check word, computed from the
 * address and size of the block, identifies it. So the last bytes of a block that a build without
 * debug allocated do not look like a mark.
 *
 * free checks the canary. A changed byte counts as an overrun, and the address of the first such
 * block is kept. A block without a mark is freed like any other and counted: a build without debug
 * allocated it, or it was written far past its end.
 *
 * The mark is also a lock: if two threads free a block at the same time, only one of them poisons
 * it. */
#ifndef ACRE_HEAP_DEBUG_H
#define ACRE_HEAP_DEBUG_H

#include "plain.h"

#ifndef ACRE_HEAP_TAG
#define ACRE_HEAP_TAG 0
#endif

enum {
    ACRE__HEAP_POISON_NEW = 0xa5,    /* as in pools with ACRE_POOL_DEBUG */
    ACRE__HEAP_POISON_CANARY = 0xfb, /* behind the requested bytes */
    ACRE__HEAP_POISON_FREED = 0xdd,
    ACRE__HEAP_DEBUG_BYTES = 32 /* least size of canary and mark together */
};

/* The last 16 bytes of a block. */
typedef struct acre__heap_mark {
    uint64_t check;
    uint32_t tag;
    uint32_t slack; /* bytes of the block that were not requested, the mark included */
} acre__heap_mark;

/* The check word of a mark, always odd. While a block is being freed, its check is one less. */
ACRE__HEAP_FN uint64_t acre__heap_mark_check(uint64_t address, uint64_t bytes, uint32_t slack) {
    uint64_t x = (address ^ bytes << 16 ^ slack) * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 31) | 1;
}

/* Returns 1 if `check` and `slack` are those of a block of `bytes` at `address`. */
ACRE__HEAP_FN int acre__heap_mark_is(uint64_t check, uint32_t slack, uint64_t address,
                                     uint64_t bytes) {
    return slack >= ACRE__HEAP_DEBUG_BYTES && slack <= bytes &&
           check == acre__heap_mark_check(address, bytes, slack);
}

/* Counts the bytes of the canary that were changed. */
ACRE__HEAP_FN uint32_t acre__heap_canary_damage(const unsigned char *canary, size_t bytes) {
    uint32_t damage = 0;
    for (size_t i = 0; i < bytes; i++)
        damage += canary[i] != ACRE__HEAP_POISON_CANARY;
    return damage;
}

#ifdef ACRE_HEAP_DEBUG

ACRE__HEAP_FN acre__heap_mark *acre__heap_mark_of(const void *p, size_t bytes) {
    return (acre__heap_mark *)(void *)((char *)(uintptr_t)p + bytes) - 1;
}

/* Returns the mark of a live block of `bytes`; NULL if it has none. */
ACRE__HEAP_FN acre__heap_mark *acre__heap_mark_find(const void *p, size_t bytes) {
    if (bytes < ACRE__HEAP_DEBUG_BYTES)
        return NULL;
    acre__heap_mark *mark = acre__heap_mark_of(p, bytes);
    uint64_t check = acre__heap_load64(&mark->check, relaxed);
    uint32_t slack = acre__heap_load32(&mark->slack, relaxed);
    return acre__heap_mark_is(check, slack, (uintptr_t)p, bytes) ? mark : NULL;
}

/* Writes the mark with atomics: a thread that frees the block twice may read the mark while the
 * next owner writes it. */
ACRE__HEAP_SLOW void *acre__heap_debug_malloc(acre_heap_handle h, size_t bytes, size_t align,
                                              uint32_t tag) {
    bytes = bytes ? bytes : 1;
    size_t all =
        bytes > SIZE_MAX - ACRE__HEAP_DEBUG_BYTES ? SIZE_MAX - 1 : bytes + ACRE__HEAP_DEBUG_BYTES;
    char *p = (char *)(align == 1 ? acre__heap_plain_malloc(h, all)
                                  : acre__heap_plain_aligned_malloc(h, all, align));
    if (!p)
        return NULL;
    size_t got = acre__heap_plain_usable_size(h, p);
    uint32_t slack = (uint32_t)(got - bytes);
    acre__heap_mark *mark = acre__heap_mark_of(p, got);
    acre__heap_fill_part(p, ACRE__HEAP_POISON_NEW, bytes, 0, 1);
    acre__heap_fill_part(p + bytes, ACRE__HEAP_POISON_CANARY, slack - sizeof *mark, 0, 1);
    acre__heap_store32(&mark->tag, tag, relaxed);
    acre__heap_store32(&mark->slack, slack, relaxed);
    acre__heap_store64(&mark->check, acre__heap_mark_check((uintptr_t)p, got, slack), relaxed);
    if (!acre__heap_load64(&h.control->marked, relaxed))
        acre__heap_store64(&h.control->marked, (uint64_t)1, relaxed);
    return p;
}

/* Counts an overrun, and keeps the address of the first one. */
ACRE__HEAP_FN void acre__heap_debug_overrun(acre_heap_handle h, const void *p) {
    uint64_t none = 0;
    acre__heap_add64(&h.control->overruns, (uint64_t)1, relaxed);
    (void)acre__heap_cas64(&h.control->overrun_at, &none, (uint64_t)(uintptr_t)p, relaxed);
}

/* Checks a live block and poisons it. Returns 0 if another thread is freeing it. */
ACRE__HEAP_FN int acre__heap_debug_close(acre_heap_handle h, char *p, size_t bytes) {
    acre__heap_mark *mark = acre__heap_mark_of(p, bytes);
    uint64_t check = acre__heap_load64(&mark->check, relaxed);
    uint32_t slack = acre__heap_load32(&mark->slack, relaxed);
    if (!acre__heap_mark_is(check | 1, slack, (uintptr_t)p, bytes)) {
        acre__heap_add64(&h.control->unmarked, (uint64_t)1, relaxed);
        return 1;
    }
    if (!(check & 1) || !acre__heap_cas64(&mark->check, &check, check - 1, acquire))
        return 0;
    size_t canary = slack - sizeof *mark;
    if (acre__heap_canary_damage((unsigned char *)(void *)mark - canary, canary))
        acre__heap_debug_overrun(h, p);
    acre__heap_fill_part(p, ACRE__HEAP_POISON_FREED, bytes - sizeof *mark, 0, 1);
    /* Removes the mark: a build without debug may get the block next, and writes none. */
    acre__heap_store64(&mark->check, (uint64_t)0, release);
    return 1;
}

ACRE__HEAP_SLOW void acre__heap_debug_free(acre_heap_handle h, void *p) {
    size_t bytes = p ? acre__heap_plain_usable_size(h, p) : 0;
    if (bytes && !acre__heap_debug_close(h, (char *)p, bytes))
        ACRE__HEAP_CALL(acre__heap_wrong, acre__heap_of(h), ACRE__HEAP_IS_DOUBLE, 1);
    else
        acre__heap_plain_free(h, p);
}

/* Returns the requested size, so that the program does not write to the canary. */
ACRE__HEAP_SLOW size_t acre__heap_debug_usable_size(acre_heap_handle h, const void *p) {
    size_t bytes = acre__heap_plain_usable_size(h, p);
    acre__heap_mark *mark = acre__heap_mark_find(p, bytes);
    return mark ? bytes - acre__heap_load32(&mark->slack, relaxed) : bytes;
}

ACRE__HEAP_SLOW void acre__heap_debug_set_tag(acre_heap_handle h, void *p, uint32_t tag) {
    acre__heap_mark *mark = p ? acre__heap_mark_find(p, acre__heap_plain_usable_size(h, p)) : NULL;
    if (mark)
        acre__heap_store32(&mark->tag, tag, relaxed);
}

#endif

#endif

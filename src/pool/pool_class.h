/* Size classes of small blocks: 256 bytes, multiples of 512 bytes up to 4 KiB, then 8 classes for
 * each doubling up to 512 KiB. So every block of more than 256 bytes is aligned to 512 bytes, as
 * with cuMemAlloc. Waste is at most an eighth of the request above 4 KiB, and at most 511 bytes for
 * 256 bytes to 4 KiB. */
#ifndef ACRE_POOL_CLASS_H
#define ACRE_POOL_CLASS_H

#include <stddef.h>
#include <stdint.h>

#define ACRE__GRAIN ((size_t)256)

enum { ACRE__CLASSES = 1 + 8 + 8 * 7 }; /* up to 512 KiB; larger blocks have no class */

#define ACRE__SMALL_MOST ((size_t)512 << 10)
#define ACRE__BYTES_MOST ((size_t)2048 << 30)

/* The class of 1 to ACRE__BYTES_MOST bytes. */
static inline uint32_t acre__class_of(size_t bytes) {
    /* No branch: sizes vary, and a misprediction costs as much as half a hit. */
    uint32_t top = 63 - (uint32_t)__builtin_clzll((bytes - 1) | 4096); /* 12 or more */
    return (top - 12) * 8 + (uint32_t)((bytes - 1) >> (top - 3)) + (bytes > ACRE__GRAIN);
}

/* The slot size of a class. */
static inline size_t acre__class_bytes(uint32_t size_class) {
    if (size_class <= 8)
        return size_class ? (size_t)512 * size_class : ACRE__GRAIN;
    uint32_t top = (size_class - 9) / 8, step = (size_class - 9) % 8;
    return ((size_t)9 + step) << (top + 9);
}

/* A set of classes. */
struct acre__class_set {
    uint64_t bits[(ACRE__CLASSES + 63) / 64];
};
static inline void acre__class_put(struct acre__class_set *set, uint32_t size_class, int is_in) {
    uint64_t bit = (uint64_t)1 << size_class % 64, *bits = &set->bits[size_class / 64];
    *bits = is_in ? *bits | bit : *bits & ~bit;
}
/* Iterates over the classes in a set, from *size_class on. Returns 0 at the end. */
static inline int acre__class_next(const struct acre__class_set *set, uint32_t *size_class) {
    for (uint32_t i = *size_class; i < ACRE__CLASSES; i = (i / 64 + 1) * 64) {
        uint64_t bits = set->bits[i / 64] >> i % 64;
        if (bits) {
            *size_class = i + (uint32_t)__builtin_ctzll(bits);
            return 1;
        }
    }
    return 0;
}

/* States of slots are 4 << shift bytes apart, so that a cache line has as many states as a thread
 * fetches slots at a time. Threads whose slots have their states in one line would slow each other
 * down (false sharing). */
static inline uint32_t acre__class_state_shift(uint32_t size_class) {
    return size_class <= 8 ? 0 : size_class <= 32 ? 2 : 4; /* up to 4 KiB, 32 KiB, more */
}

#endif

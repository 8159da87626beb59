/* Size classes of small blocks: multiples of 256 bytes up to 2 KiB, then 8 classes for each
 * doubling, so that a block has at most an eighth more than was asked for. */
#ifndef ACRE_POOL_CLASS_H
#define ACRE_POOL_CLASS_H

#include <stddef.h>
#include <stdint.h>

#define ACRE__GRAIN ((size_t)256)

enum {
    ACRE__CLASSES = 8 + 8 * 9, /* up to 1 MiB; larger blocks are placed one by one */
    ACRE__KEPT = 8 * 6,        /* above them, up to 64 MiB: of which a thread keeps one each, */
    ACRE__KEPT_MORE = 8        /* and a few of the smaller ones for a while */
};

#define ACRE__SMALL_MOST ((size_t)1 << 20)
#define ACRE__BYTES_MOST ((size_t)2048 << 30)

/* The class of 1 to ACRE__BYTES_MOST bytes. */
static inline uint32_t acre__class_of(size_t bytes) {
    /* Without a branch: sizes vary, and one that is guessed wrong costs as much as half a hit. */
    uint32_t top = 63 - (uint32_t)__builtin_clzll((bytes - 1) | 2048); /* 11 or more */
    return (top - 11) * 8 + (uint32_t)((bytes - 1) >> (top - 3));
}

/* Bytes of its slots. */
static inline size_t acre__class_bytes(uint32_t size_class) {
    if (size_class < 8)
        return (size_class + 1) * ACRE__GRAIN;
    uint32_t top = (size_class - 8) / 8, step = (size_class - 8) % 8;
    return ((size_t)9 + step) << (top + 8);
}

#endif

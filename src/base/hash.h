/* A hash of text: FNV-1a, 64 bits. */
#ifndef ACRE_BASE_HASH_H
#define ACRE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define ACRE__HASH_BEGIN UINT64_C(0xcbf29ce484222325)

/* Continues a hash, which begins with ACRE__HASH_BEGIN. */
static inline uint64_t acre__hash_bytes(uint64_t hash, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

#endif

/* Rounding of sizes and addresses. */
#ifndef ACRE_BASE_ROUND_H
#define ACRE_BASE_ROUND_H

#include <stdint.h>

/* `bytes` rounded up to a multiple of `unit`; near UINT64_MAX the largest multiple there is. */
static inline uint64_t acre__round_up(uint64_t bytes, uint64_t unit) {
    return bytes > UINT64_MAX - unit ? UINT64_MAX / unit * unit : (bytes + unit - 1) / unit * unit;
}

#endif

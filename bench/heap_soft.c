/* The kernels of `acre bench heap` for soft devices, with the same bodies as for a GPU. */
#include "heap_bench.h"

/* clang-format off */
#define HEAP_SOFT_KERNELS(X)                                                                       \
    HEAP_ALL_ROUNDS(X)                                                                             \
    HEAP_PARTY_KERNELS(X, acre, HEAP_ACRE)                                                         \
    HEAP_PARTY_KERNELS(X, floor, HEAP_FLOOR)                                                       \
    HEAP_PARTY_KERNELS(X, bump, HEAP_BUMP)

HEAP_COMMON_KERNELS(HEAP_KERNEL)
HEAP_SOFT_KERNELS(HEAP_PARTY_KERNEL)

acre_soft_kernel heap_soft_kernel(enum heap_kernel kernel) {
#define HEAP_KERNEL_HERE(name, call) [HEAP_K_##name] = heap_##name,
#define HEAP_PARTY_HERE(name, party, number) [HEAP_K_##name##_##party] = heap_##name##_##party,
    static const acre_soft_kernel kernels[HEAP_KERNELS] = {
        HEAP_COMMON_KERNELS(HEAP_KERNEL_HERE)
        HEAP_SOFT_KERNELS(HEAP_PARTY_HERE)
    };
    return kernels[kernel];
}
/* clang-format on */

/* Kernels of `acre bench heap` with acre's heap, without an allocator, and with a bump pointer. */
#include "heap_jobs.h"

HEAP_COMMON_KERNELS(HEAP_KERNEL)
HEAP_PARTY_KERNELS(HEAP_PARTY_KERNEL, acre, HEAP_ACRE)
HEAP_PARTY_KERNELS(HEAP_PARTY_KERNEL, floor, HEAP_FLOOR)
HEAP_PARTY_KERNELS(HEAP_PARTY_KERNEL, bump, HEAP_BUMP)
HEAP_ALL_ROUNDS(HEAP_PARTY_KERNEL)

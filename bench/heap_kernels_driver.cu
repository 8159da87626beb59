/* Kernels of `acre bench heap` with CUDA's own malloc. They are in a separate module, since loading
 * it fixes the size of CUDA's heap. */
#define HEAP_WITH_DRIVER 1
#include "heap_jobs.h"

HEAP_PARTY_KERNELS(HEAP_PARTY_KERNEL, driver, HEAP_DRIVER)

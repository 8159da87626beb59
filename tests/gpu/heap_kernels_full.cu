/* The kernels of heap_kernels.cu with the memory order that every GPU has by PTX's promises. */
#define ACRE_HEAP_FULL_ORDER
#include "heap_kernels.cu"

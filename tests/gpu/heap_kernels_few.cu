/* The kernels of heap_kernels.cu, compiled for few registers. */
#define ACRE_HEAP_FEW_REGISTERS
#include "heap_kernels.cu"

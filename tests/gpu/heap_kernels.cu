/* The kernels of the heap's tests, compiled for a GPU. */
#include "heap_kernels.h"

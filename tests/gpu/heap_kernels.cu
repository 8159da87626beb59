/* The kernels of the heap's tests, for a GPU. */
#include "heap_kernels.h"

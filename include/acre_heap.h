/* malloc and free inside kernels, and the host functions for their heaps. */
#include "acre.h"
#include "acre/heap.h"

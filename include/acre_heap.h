/* malloc and free inside kernels, and the host functions for their heaps. */
#ifndef __CUDACC_RTC__
#include "acre.h"
#endif
#include "acre/heap.h"

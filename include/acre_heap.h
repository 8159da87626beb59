/* malloc and free inside kernels, and the host's side of them. */
#include "acre.h"
#include "acre/heap.h"

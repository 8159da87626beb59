/* Kernels on the soft device, as C functions over a grid. */
#include "acre.h"
#include "acre/soft.h"

/* A list in device memory, which kernels of `acre demo` build with malloc, one node per thread. For
 * C and for nvcc. */
#ifndef ACRE_CLI_DEMO_LIST_H
#define ACRE_CLI_DEMO_LIST_H

#include "acre_heap.h"

enum { DEMO_LIST_BLOCKS = 64, DEMO_LIST_THREADS = 128 };

struct demo_node {
    unsigned long long next; /* address of a node, or 0 */
    unsigned int value;      /* number of the thread that made it */
};

struct demo_list {
    acre_heap_handle heap;
    unsigned long long first;
};

#endif

/* The kernels of `acre demo` for a GPU: a list whose nodes come from malloc in the kernel. The same
 * for a soft device is in demo_heap.c. */
#include "demo_list.h"

extern "C" __global__ void demo_build_list(struct demo_list *list) {
    struct demo_node *node =
        (struct demo_node *)acre_heap_malloc(list->heap, sizeof(struct demo_node));
    if (!node)
        return;
    node->value = blockIdx.x * blockDim.x + threadIdx.x;
    node->next = atomicExch(&list->first, (unsigned long long)node);
}

extern "C" __global__ void demo_free_list(struct demo_list *list) {
    while (list->first) {
        struct demo_node *node = (struct demo_node *)list->first;
        list->first = node->next;
        acre_heap_free(list->heap, node);
    }
}

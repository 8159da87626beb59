/* heap_linked_list.cu on the soft device: a kernel builds a list with malloc, one node for each
 * thread. The host reads the list by copies. Another kernel frees it. */
#include <acre_heap.h>
#include <acre_soft.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 32, THREADS = 32, NODES = BLOCKS * THREADS };

struct node {
    struct node *next;
    int value;
};

static _Atomic(struct node *) list;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        exit(2);
    }
}

static void build_list(void *arg) {
    const acre_heap_handle *heap = arg;
    struct node *mine = acre_heap_malloc(*heap, sizeof *mine);
    if (!mine)
        return;
    mine->value = (int)(acre_soft_block_index(0) * THREADS + acre_soft_thread_index(0));
    /* Each node becomes the head in turn. Nobody reads the list before the kernel is done. */
    mine->next = atomic_exchange(&list, mine);
}

static void free_list(void *arg) {
    const acre_heap_handle *heap = arg;
    while (list) {
        struct node *first = list;
        list = first->next;
        acre_heap_free(*heap, first);
    }
}

/* Follows the list in device memory. Returns the number of nodes; -1 if one is wrong. */
static int read_list(acre_device *device) {
    static char is_seen[NODES];
    int count = 0;
    long sum = 0;
    struct node one;
    for (struct node *at = list; at && count <= NODES; at = one.next, count++) {
        need(acre_copy_sync(device, &one, at, sizeof one), "a node");
        if (one.value < 0 || one.value >= NODES || is_seen[one.value])
            return -1;
        is_seen[one.value] = 1;
        sum += one.value;
    }
    printf("%d nodes, sum %ld\n", count, sum);
    return count;
}

int main(void) {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle handle;
    uint64_t leaked;
    need(acre_open("soft", NULL, &device), "acre_open");
    need(acre_heap_create(device, NULL, &heap), "acre_heap_create");
    need(acre_heap_get_handle(heap, &handle), "acre_heap_get_handle");
    need(acre_soft_launch(device, NULL, build_list, (uint32_t[]){BLOCKS, 1, 1},
                          (uint32_t[]){THREADS, 1, 1}, 0, &handle),
         "acre_soft_launch");
    need(acre_stream_sync(device, NULL), "the kernel");
    int count = read_list(device);
    need(acre_soft_launch(device, NULL, free_list, (uint32_t[]){1, 1, 1}, (uint32_t[]){1, 1, 1}, 0,
                          &handle),
         "acre_soft_launch");
    need(acre_stream_sync(device, NULL), "the kernel");
    need(acre_heap_destroy(heap, &leaked, NULL), "acre_heap_destroy");
    need(acre_close(device), "acre_close");
    int is_good = count == NODES && leaked == 0;
    printf("%s\n",
           is_good ? "every node was found once, and all memory was freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

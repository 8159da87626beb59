/* heap_per_thread.cu on the soft device: malloc inside a kernel, a block for each thread. Five
 * threads allocate 123 bytes each, clear them, print their address and free them. */
#include <acre_heap.h>
#include <acre_soft.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 5, BYTES = 123 };

struct use {
    acre_heap_handle heap;
    char *pointers[THREADS];
};

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        exit(2);
    }
}

static void use_memory(void *arg) {
    struct use *use = arg;
    uint32_t thread = acre_soft_thread_index(0);
    char *p = acre_heap_malloc(use->heap, BYTES);
    if (p)
        (void)acre_heap_memset(p, 0, BYTES);
    printf("Thread %u got pointer: %p\n", thread, (void *)p);
    use->pointers[thread] = p;
    acre_soft_syncthreads(); /* all blocks are live at the same time, so no two have the same
                                address */
    acre_heap_free(use->heap, p);
}

/* Returns 1 if the blocks are not NULL, aligned, and do not overlap. */
static int is_right(char *const *pointers) {
    for (int i = 0; i < THREADS; i++) {
        uintptr_t p = (uintptr_t)pointers[i];
        if (p == 0 || p % 16 != 0)
            return 0;
        for (int k = 0; k < i; k++) {
            uintptr_t other = (uintptr_t)pointers[k];
            if ((p > other ? p - other : other - p) < BYTES)
                return 0;
        }
    }
    return 1;
}

int main(void) {
    static struct use use;
    acre_device *device;
    acre_heap *heap;
    uint64_t leaked;
    need(acre_open("soft", NULL, &device), "acre_open");
    need(acre_heap_create(device, NULL, &heap), "acre_heap_create");
    need(acre_heap_get_handle(heap, &use.heap), "acre_heap_get_handle");
    need(acre_soft_launch(device, NULL, use_memory, (uint32_t[]){1, 1, 1},
                          (uint32_t[]){THREADS, 1, 1}, 0, &use),
         "acre_soft_launch");
    need(acre_stream_sync(device, NULL), "the kernel");
    need(acre_heap_destroy(heap, &leaked, NULL), "acre_heap_destroy");
    need(acre_close(device), "acre_close");
    int is_good = is_right(use.pointers) && leaked == 0;
    printf("%s\n", is_good ? "all blocks are aligned, separate and freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

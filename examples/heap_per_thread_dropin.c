/* What heap_per_thread_dropin.cu does, on the soft device: in this file's kernels malloc and free
 * are the heap's, elsewhere the C library's. */
#define ACRE_HEAP_AS_MALLOC
#include <acre_heap.h>
#include <acre_soft.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 5, BYTES = 123 };

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        exit(2);
    }
}

static void use_memory(void *arg) {
    char **pointers = arg;
    uint32_t thread = acre_soft_thread_index(0);
    char *p = malloc(BYTES);
    if (p)
        (void)memset(p, 0, BYTES);
    printf("Thread %u got pointer: %p\n", thread, (void *)p);
    pointers[thread] = p;
    acre_soft_syncthreads(); /* all are there at once, so no two have the same */
    free(p);
}

/* Not NULL, aligned, and apart. */
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
    char *pointers[THREADS];
    acre_device *device;
    acre_heap *heap;
    uint64_t leaked;
    need(acre_open("soft", NULL, &device), "acre_open");
    need(acre_heap_create(device, NULL, &heap), "acre_heap_create");
    need(acre_heap_as_malloc(heap), "acre_heap_as_malloc");
    need(acre_soft_launch(device, NULL, use_memory, (uint32_t[]){1, 1, 1},
                          (uint32_t[]){THREADS, 1, 1}, 0, pointers),
         "acre_soft_launch");
    need(acre_stream_sync(device, NULL), "the kernel");
    need(acre_heap_destroy(heap, &leaked, NULL), "acre_heap_destroy");
    need(acre_close(device), "acre_close");
    int is_good = is_right(pointers) && leaked == 0;
    printf("%s\n", is_good ? "aligned, apart and freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

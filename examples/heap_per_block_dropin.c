/* What heap_per_block_dropin.cu does, on the soft device: in this file's kernels malloc and free
 * are the heap's, elsewhere the C library's. */
#define ACRE_HEAP_AS_MALLOC
#include <acre_heap.h>
#include <acre_soft.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 10, THREADS = 128, INTS = 64 /* for each thread */ };

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        exit(2);
    }
}

static void use_memory(void *arg) {
    atomic_int *sums = arg;
    int **shared = acre_soft_shared(), sum = 0;
    uint32_t thread = acre_soft_thread_index(0);
    if (thread == 0)
        *shared = malloc(THREADS * INTS * sizeof(int));
    acre_soft_syncthreads();
    int *data = *shared;
    if (!data)
        return; /* all threads of the block */
    for (uint32_t i = 0; i < INTS; i++)
        data[i * THREADS + thread] = (int)thread;
    acre_soft_syncthreads();
    /* What the others wrote: the first 64 threads read one word of each thread. */
    for (uint32_t i = 0; i < THREADS && thread < INTS; i++)
        sum += data[thread * THREADS + i];
    if (thread < INTS)
        atomic_fetch_add(&sums[acre_soft_block_index(0)], sum);
    acre_soft_syncthreads(); /* nobody uses it any more */
    if (thread == 0)
        free(data);
}

int main(void) {
    static atomic_int sums[BLOCKS];
    acre_device *device;
    acre_heap *heap;
    uint64_t leaked;
    int wrong = 0;
    need(acre_open("soft", NULL, &device), "acre_open");
    need(acre_heap_create(device, NULL, &heap), "acre_heap_create");
    need(acre_heap_as_malloc(heap), "acre_heap_as_malloc");
    need(acre_soft_launch(device, NULL, use_memory, (uint32_t[]){BLOCKS, 1, 1},
                          (uint32_t[]){THREADS, 1, 1}, sizeof(int *), sums),
         "acre_soft_launch");
    need(acre_stream_sync(device, NULL), "the kernel");
    for (int i = 0; i < BLOCKS; i++) {
        printf("Block %d: sum = %d\n", i, sums[i]);
        wrong += sums[i] != INTS * THREADS * (THREADS - 1) / 2;
    }
    need(acre_heap_destroy(heap, &leaked, NULL), "acre_heap_destroy");
    need(acre_close(device), "acre_close");
    int is_good = wrong == 0 && leaked == 0;
    printf("%s\n", is_good ? "all sums are right, all is freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

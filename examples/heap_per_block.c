/* heap_per_block.cu on the soft device: malloc inside a kernel, one block of memory for each thread
 * block. The first thread allocates it and passes it to the others in shared memory. After a
 * barrier one thread frees it. */
#include <acre_heap.h>
#include <acre_soft.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 10, THREADS = 128, INTS = 64 /* for each thread */ };

struct use {
    acre_heap_handle heap;
    atomic_int sums[BLOCKS];
};

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        exit(2);
    }
}

static void use_memory(void *arg) {
    struct use *use = arg;
    int **shared = acre_soft_shared(), sum = 0;
    uint32_t thread = acre_soft_thread_index(0);
    if (thread == 0)
        *shared = acre_heap_malloc(use->heap, THREADS * INTS * sizeof(int));
    acre_soft_syncthreads();
    int *data = *shared;
    if (!data)
        return; /* for all threads of the block */
    for (uint32_t i = 0; i < INTS; i++)
        data[i * THREADS + thread] = (int)thread;
    acre_soft_syncthreads();
    /* Read data of other threads: the first 64 threads read one word of each thread. */
    for (uint32_t i = 0; i < THREADS && thread < INTS; i++)
        sum += data[thread * THREADS + i];
    if (thread < INTS)
        atomic_fetch_add(&use->sums[acre_soft_block_index(0)], sum);
    acre_soft_syncthreads(); /* no thread uses it any more */
    if (thread == 0)
        acre_heap_free(use->heap, data);
}

int main(void) {
    static struct use use;
    acre_device *device;
    acre_heap *heap;
    uint64_t leaked;
    int wrong = 0;
    need(acre_open("soft", NULL, &device), "acre_open");
    need(acre_heap_create(device, NULL, &heap), "acre_heap_create");
    need(acre_heap_get_handle(heap, &use.heap), "acre_heap_get_handle");
    need(acre_soft_launch(device, NULL, use_memory, (uint32_t[]){BLOCKS, 1, 1},
                          (uint32_t[]){THREADS, 1, 1}, sizeof(int *), &use),
         "acre_soft_launch");
    need(acre_stream_sync(device, NULL), "the kernel");
    for (int i = 0; i < BLOCKS; i++) {
        printf("Block %d: sum = %d\n", i, use.sums[i]);
        wrong += use.sums[i] != INTS * THREADS * (THREADS - 1) / 2;
    }
    need(acre_heap_destroy(heap, &leaked, NULL), "acre_heap_destroy");
    need(acre_close(device), "acre_close");
    int is_good = wrong == 0 && leaked == 0;
    printf("%s\n", is_good ? "all sums are right, all memory was freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

/* heap_persist_dropin.cu on the soft device: in this file's kernels malloc and free use the heap,
 * elsewhere the C library. */
#define ACRE_HEAP_AS_MALLOC
#include <acre_heap.h>
#include <acre_soft.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 20, THREADS = 10 };

static int *data_of[BLOCKS];
static atomic_int wrong_count;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        exit(2);
    }
}

static void take_memory(void *arg) {
    (void)arg;
    uint32_t block = acre_soft_block_index(0), thread = acre_soft_thread_index(0);
    if (thread == 0)
        data_of[block] = malloc(THREADS * sizeof(int));
    acre_soft_syncthreads();
    if (data_of[block])
        data_of[block][thread] = 0;
}

static void use_memory(void *arg) {
    (void)arg;
    int *data = data_of[acre_soft_block_index(0)];
    uint32_t thread = acre_soft_thread_index(0);
    if (data)
        data[thread] += (int)thread;
}

static void free_memory(void *arg) {
    (void)arg;
    uint32_t block = acre_soft_block_index(0), thread = acre_soft_thread_index(0);
    int *data = data_of[block], value = data ? data[thread] : -1;
    printf("Block %u, Thread %u: final value = %d\n", block, thread, value);
    if (value != 3 * (int)thread)
        atomic_fetch_add(&wrong_count, 1);
    acre_soft_syncthreads(); /* all threads have read it */
    if (thread == 0)
        free(data);
}

static void launch(acre_device *device, acre_soft_kernel kernel) {
    need(acre_soft_launch(device, NULL, kernel, (uint32_t[]){BLOCKS, 1, 1},
                          (uint32_t[]){THREADS, 1, 1}, 0, NULL),
         "acre_soft_launch");
}

int main(void) {
    acre_device *device;
    acre_heap *heap;
    uint64_t leaked;
    need(acre_open("soft", NULL, &device), "acre_open");
    need(acre_heap_create(device, NULL, &heap), "acre_heap_create");
    need(acre_heap_as_malloc(heap), "acre_heap_as_malloc");
    launch(device, take_memory);
    for (int i = 0; i < 3; i++)
        launch(device, use_memory);
    launch(device, free_memory);
    need(acre_stream_sync(device, NULL), "the kernels");
    need(acre_heap_destroy(heap, &leaked, NULL), "acre_heap_destroy");
    need(acre_close(device), "acre_close");
    int is_good = wrong_count == 0 && leaked == 0;
    printf("%s\n", is_good ? "all values are right, all memory was freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

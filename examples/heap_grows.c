/* heap_grows.cu on the soft device, up to 256 MiB: the kernel requests memory, and the host maps it
 * while the kernel runs. At the limit malloc returns NULL at once. */
#include <acre_heap.h>
#include <acre_soft.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)
#define INITIAL (8 * MIB)
#define MAXIMUM (256 * MIB)
enum { BLOCKS = 16, THREADS = 32, BYTES = 4096 };

struct piece {
    struct piece *next;
    struct piece *self; /* detects a block that was allocated twice */
};

static struct piece *pieces[BLOCKS * THREADS];
static atomic_ullong taken, freed;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        exit(2);
    }
}

static void take_all(void *arg) {
    const acre_heap_handle *heap = arg;
    unsigned long long count = 0;
    struct piece *list = NULL, *one;
    while ((one = acre_heap_malloc(*heap, BYTES)) != NULL) {
        one->next = list;
        one->self = one;
        list = one;
        count++;
    }
    pieces[acre_soft_block_index(0) * THREADS + acre_soft_thread_index(0)] = list;
    atomic_fetch_add(&taken, count);
}

static void free_all(void *arg) {
    const acre_heap_handle *heap = arg;
    unsigned long long count = 0;
    struct piece *one = pieces[acre_soft_block_index(0) * THREADS + acre_soft_thread_index(0)];
    while (one && one->self == one) {
        struct piece *next = one->next;
        acre_heap_free(*heap, one);
        one = next;
        count++;
    }
    atomic_fetch_add(&freed, count);
}

static acre_heap_stats about(acre_heap *heap, const char *when) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    need(acre_heap_get_stats(heap, &stats), "acre_heap_get_stats");
    printf("%-18s %5llu MiB mapped, %5llu MiB live\n", when,
           (unsigned long long)(stats.mapped_bytes / MIB),
           (unsigned long long)(stats.live_bytes / MIB));
    return stats;
}

static void launch(acre_device *device, acre_soft_kernel kernel, acre_heap_handle *heap) {
    need(acre_soft_launch(device, NULL, kernel, (uint32_t[]){BLOCKS, 1, 1},
                          (uint32_t[]){THREADS, 1, 1}, 0, heap),
         "acre_soft_launch");
    need(acre_stream_sync(device, NULL), "the kernel");
}

int main(void) {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle handle;
    acre_heap_options options = {.struct_size = sizeof options,
                                 .initial_bytes = INITIAL,
                                 .limit_bytes = MAXIMUM,
                                 .step_bytes = MAXIMUM / 32};
    need(acre_open("soft", NULL, &device), "acre_open");
    need(acre_heap_create(device, &options, &heap), "acre_heap_create");
    need(acre_heap_get_handle(heap, &handle), "acre_heap_get_handle");
    about(heap, "at first");
    launch(device, take_all, &handle);
    acre_heap_stats full = about(heap, "after one kernel");
    launch(device, free_all, &handle);
    need(acre_heap_trim(heap, INITIAL), "acre_heap_trim");
    acre_heap_stats empty = about(heap, "freed and trimmed");
    need(acre_heap_destroy(heap, NULL, NULL), "acre_heap_destroy");
    need(acre_close(device), "acre_close");
    int is_good = full.mapped_bytes == MAXIMUM && taken * BYTES > MAXIMUM / 100 * 97 &&
                  taken == freed && empty.live_blocks == 0 && empty.mapped_bytes < MAXIMUM;
    printf("%s\n", is_good ? "the heap grew while the kernel ran" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

// A heap that grows from 8 MiB to 8 GiB in one launch: the kernel requests memory, and the host
// maps it while the kernel runs. At the limit malloc returns NULL at once.
#include <acre_heap.h>
#include <cstdio>
#include <cstdlib>

constexpr uint64_t MIB = 1 << 20;
constexpr uint64_t INITIAL = 8 * MIB, MAXIMUM = 8192 * MIB;
constexpr int BLOCKS = 1024;
constexpr int THREADS = 128;
constexpr size_t BYTES = 4096;

struct piece {
    piece *next;
    piece *self; // detects a block that was allocated twice
};

__device__ piece *pieces[BLOCKS * THREADS];
__device__ unsigned long long taken, freed;

static void need(bool is_so, const char *what) {
    if (!is_so) {
        std::fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        std::exit(2);
    }
}

__global__ void take_all(acre_heap_handle heap) {
    unsigned long long count = 0;
    piece *list = nullptr;
    while (piece *one = static_cast<piece *>(acre_heap_malloc(heap, BYTES))) {
        one->next = list;
        one->self = one;
        list = one;
        count++;
    }
    pieces[blockIdx.x * THREADS + threadIdx.x] = list;
    atomicAdd(&taken, count);
}

__global__ void free_all(acre_heap_handle heap) {
    unsigned long long count = 0;
    piece *one = pieces[blockIdx.x * THREADS + threadIdx.x];
    while (one && one->self == one) {
        piece *next = one->next;
        acre_heap_free(heap, one);
        one = next;
        count++;
    }
    atomicAdd(&freed, count);
}

static acre_heap_stats about(acre_heap *heap, const char *when) {
    acre_heap_stats stats = {};
    stats.struct_size = sizeof stats;
    need(acre_heap_get_stats(heap, &stats) == ACRE_OK, "acre_heap_get_stats");
    std::printf("%-18s %5llu MiB mapped, %5llu MiB live\n", when,
                static_cast<unsigned long long>(stats.mapped_bytes / MIB),
                static_cast<unsigned long long>(stats.live_bytes / MIB));
    return stats;
}

int main() {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle handle;
    unsigned long long count[2];
    size_t free_bytes, all_bytes;
    if (acre_open("cuda", nullptr, &device) != ACRE_OK) {
        std::fprintf(stderr, "this example needs a GPU: %s\n", acre_last_detail());
        return 77;
    }
    need(cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess, "cudaMemGetInfo");
    if (free_bytes < MAXIMUM + MAXIMUM / 8) {
        std::fprintf(stderr, "this example needs more free memory on the GPU\n");
        return 77;
    }
    acre_heap_options options = {};
    options.struct_size = sizeof options;
    options.initial_bytes = INITIAL;
    options.limit_bytes = MAXIMUM;
    options.step_bytes = MAXIMUM / 32;
    need(acre_heap_create(device, &options, &heap) == ACRE_OK, "acre_heap_create");
    need(acre_heap_get_handle(heap, &handle) == ACRE_OK, "acre_heap_get_handle");
    about(heap, "at first");
    take_all<<<BLOCKS, THREADS>>>(handle);
    need(cudaMemcpyFromSymbol(&count[0], taken, sizeof taken) == cudaSuccess, "the kernel");
    acre_heap_stats full = about(heap, "after one kernel");
    free_all<<<BLOCKS, THREADS>>>(handle);
    need(cudaMemcpyFromSymbol(&count[1], freed, sizeof freed) == cudaSuccess, "the kernel");
    need(acre_heap_trim(heap, INITIAL) == ACRE_OK, "acre_heap_trim");
    acre_heap_stats empty = about(heap, "freed and trimmed");
    need(acre_heap_destroy(heap, nullptr, nullptr) == ACRE_OK, "acre_heap_destroy");
    need(acre_close(device) == ACRE_OK, "acre_close");
    bool is_good = full.mapped_bytes == MAXIMUM && count[0] * BYTES > MAXIMUM / 100 * 97 &&
                   count[0] == count[1] && empty.live_blocks == 0 && empty.mapped_bytes < MAXIMUM;
    std::printf("%s\n", is_good ? "the heap grew while the kernel ran" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

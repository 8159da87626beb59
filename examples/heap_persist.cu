// Memory allocated inside a kernel stays live until some kernel frees it. One launch allocates and
// clears it, three launches add to it, one prints and frees it.
#include <acre_heap.h>
#include <cstdio>
#include <cstdlib>

constexpr int BLOCKS = 20;
constexpr int THREADS = 10;

__device__ int *data_of[BLOCKS];
__device__ int wrong_count;

static void need(bool is_so, const char *what) {
    if (!is_so) {
        std::fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        std::exit(2);
    }
}

__global__ void take_memory(acre_heap_handle heap) {
    if (threadIdx.x == 0)
        data_of[blockIdx.x] = static_cast<int *>(acre_heap_malloc(heap, THREADS * sizeof(int)));
    __syncthreads();
    if (data_of[blockIdx.x])
        data_of[blockIdx.x][threadIdx.x] = 0;
}

__global__ void use_memory() {
    int *data = data_of[blockIdx.x];
    if (data)
        data[threadIdx.x] += threadIdx.x;
}

__global__ void free_memory(acre_heap_handle heap) {
    int *data = data_of[blockIdx.x], thread = static_cast<int>(threadIdx.x);
    int value = data ? data[thread] : -1;
    std::printf("Block %d, Thread %d: final value = %d\n", static_cast<int>(blockIdx.x), thread,
                value);
    if (value != 3 * thread)
        atomicAdd(&wrong_count, 1);
    __syncthreads(); // all threads have read it
    if (thread == 0)
        acre_heap_free(heap, data);
}

int main() {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle handle;
    int wrong;
    uint64_t leaked;
    if (acre_open("cuda", nullptr, &device) != ACRE_OK) {
        std::fprintf(stderr, "this example needs a GPU: %s\n", acre_last_detail());
        return 77;
    }
    need(acre_heap_create(device, nullptr, &heap) == ACRE_OK, "acre_heap_create");
    need(acre_heap_get_handle(heap, &handle) == ACRE_OK, "acre_heap_get_handle");
    take_memory<<<BLOCKS, THREADS>>>(handle);
    for (int i = 0; i < 3; i++)
        use_memory<<<BLOCKS, THREADS>>>();
    free_memory<<<BLOCKS, THREADS>>>(handle);
    need(cudaMemcpyFromSymbol(&wrong, wrong_count, sizeof wrong) == cudaSuccess, "the kernels");
    need(acre_heap_destroy(heap, &leaked, nullptr) == ACRE_OK, "acre_heap_destroy");
    need(acre_close(device) == ACRE_OK, "acre_close");
    bool is_good = wrong == 0 && leaked == 0;
    std::printf("%s\n", is_good ? "all values are right, all memory was freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

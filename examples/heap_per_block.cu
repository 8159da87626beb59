// malloc inside a kernel, one block of memory for each thread block. The first thread allocates it
// and passes it to the others in shared memory. Adjacent threads write adjacent words. After a
// barrier one thread frees the memory.
#include <acre_heap.h>
#include <cstdio>
#include <cstdlib>

constexpr int BLOCKS = 10;
constexpr int THREADS = 128;
constexpr int INTS = 64; // for each thread

static void need(bool is_so, const char *what) {
    if (!is_so) {
        std::fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        std::exit(2);
    }
}

__global__ void use_memory(acre_heap_handle heap, int *sums) {
    __shared__ int *data;
    int sum = 0;
    if (threadIdx.x == 0)
        data = static_cast<int *>(acre_heap_malloc(heap, THREADS * INTS * sizeof(int)));
    __syncthreads();
    if (!data)
        return; // for all threads of the block
    for (int i = 0; i < INTS; i++)
        data[i * THREADS + threadIdx.x] = threadIdx.x;
    __syncthreads();
    // Read data of other threads: the first 64 threads read one word of each thread.
    for (int i = 0; i < THREADS && threadIdx.x < INTS; i++)
        sum += data[threadIdx.x * THREADS + i];
    if (threadIdx.x < INTS)
        atomicAdd(&sums[blockIdx.x], sum);
    __syncthreads(); // no thread uses it any more
    if (threadIdx.x == 0)
        acre_heap_free(heap, data);
}

int main() {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle handle;
    int *on_device, sums[BLOCKS], wrong = 0;
    uint64_t leaked;
    if (acre_open("cuda", nullptr, &device) != ACRE_OK) {
        std::fprintf(stderr, "this example needs a GPU: %s\n", acre_last_detail());
        return 77;
    }
    need(acre_heap_create(device, nullptr, &heap) == ACRE_OK, "acre_heap_create");
    need(acre_heap_get_handle(heap, &handle) == ACRE_OK, "acre_heap_get_handle");
    need(cudaMalloc(&on_device, sizeof sums) == cudaSuccess, "cudaMalloc");
    need(cudaMemset(on_device, 0, sizeof sums) == cudaSuccess, "cudaMemset");
    use_memory<<<BLOCKS, THREADS>>>(handle, on_device);
    need(cudaMemcpy(sums, on_device, sizeof sums, cudaMemcpyDeviceToHost) == cudaSuccess,
         "the kernel");
    cudaFree(on_device);
    for (int i = 0; i < BLOCKS; i++) {
        std::printf("Block %d: sum = %d\n", i, sums[i]);
        wrong += sums[i] != INTS * THREADS * (THREADS - 1) / 2;
    }
    need(acre_heap_destroy(heap, &leaked, nullptr) == ACRE_OK, "acre_heap_destroy");
    need(acre_close(device) == ACRE_OK, "acre_close");
    bool is_good = wrong == 0 && leaked == 0;
    std::printf("%s\n", is_good ? "all sums are right, all memory was freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

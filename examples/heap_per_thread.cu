// malloc inside a kernel, a block for each thread. Five threads allocate 123 bytes each, clear
// them, print their address and free them. Such blocks are ordinary device memory: cudaMemcpy
// accepts them.
#include <acre_heap.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

constexpr int THREADS = 5;
constexpr size_t BYTES = 123;

static void need(bool is_so, const char *what) {
    if (!is_so) {
        std::fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        std::exit(2);
    }
}

__global__ void use_memory(acre_heap_handle heap, char **pointers) {
    char *p = static_cast<char *>(acre_heap_malloc(heap, BYTES));
    if (p)
        acre_heap_memset(p, 0, BYTES);
    std::printf("Thread %d got pointer: %p\n", static_cast<int>(threadIdx.x), p);
    pointers[threadIdx.x] = p;
    __syncthreads(); // all blocks are live at the same time, so no two are the same
    acre_heap_free(heap, p);
}

// Returns true if the blocks are not NULL, aligned, and do not overlap.
static bool is_right(char *const *pointers) {
    for (int i = 0; i < THREADS; i++) {
        uintptr_t p = reinterpret_cast<uintptr_t>(pointers[i]);
        if (p == 0 || p % 16 != 0)
            return false;
        for (int k = 0; k < i; k++) {
            uintptr_t other = reinterpret_cast<uintptr_t>(pointers[k]);
            if ((p > other ? p - other : other - p) < BYTES)
                return false;
        }
    }
    return true;
}

int main() {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle handle;
    char **on_device, *pointers[THREADS];
    uint64_t leaked;
    if (acre_open("cuda", nullptr, &device) != ACRE_OK) {
        std::fprintf(stderr, "this example needs a GPU: %s\n", acre_last_detail());
        return 77;
    }
    need(acre_heap_create(device, nullptr, &heap) == ACRE_OK, "acre_heap_create");
    need(acre_heap_get_handle(heap, &handle) == ACRE_OK, "acre_heap_get_handle");
    need(cudaMalloc(&on_device, sizeof pointers) == cudaSuccess, "cudaMalloc");
    use_memory<<<1, THREADS>>>(handle, on_device);
    need(cudaMemcpy(pointers, on_device, sizeof pointers, cudaMemcpyDeviceToHost) == cudaSuccess,
         "the kernel");
    cudaFree(on_device);
    need(acre_heap_destroy(heap, &leaked, nullptr) == ACRE_OK, "acre_heap_destroy");
    need(acre_close(device) == ACRE_OK, "acre_close");
    bool is_good = is_right(pointers) && leaked == 0;
    std::printf("%s\n", is_good ? "all blocks are aligned, separate and freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

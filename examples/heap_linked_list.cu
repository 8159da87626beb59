// A kernel builds a list with malloc, one node for each thread. The host reads the list: cudaMemcpy
// accepts the memory of a heap. Another kernel frees it.
#include <acre_heap.h>
#include <cstdio>
#include <cstdlib>

constexpr int BLOCKS = 32;
constexpr int THREADS = 32;
constexpr int NODES = BLOCKS * THREADS;

struct node {
    node *next;
    int value;
};

__device__ node *list;

static void need(bool is_so, const char *what) {
    if (!is_so) {
        std::fprintf(stderr, "%s: %s\n", what, acre_last_detail());
        std::exit(2);
    }
}

__global__ void build_list(acre_heap_handle heap) {
    node *mine = static_cast<node *>(acre_heap_malloc(heap, sizeof(node)));
    if (!mine)
        return;
    mine->value = static_cast<int>(blockIdx.x * THREADS + threadIdx.x);
    // Each node becomes the head in turn. Nobody reads the list before the kernel is done.
    mine->next = reinterpret_cast<node *>(atomicExch(reinterpret_cast<unsigned long long *>(&list),
                                                     reinterpret_cast<unsigned long long>(mine)));
}

__global__ void free_list(acre_heap_handle heap) {
    while (list) {
        node *first = list;
        list = first->next;
        acre_heap_free(heap, first);
    }
}

// Follows the list in device memory. Returns the number of nodes; -1 if one is wrong.
static int read_list() {
    static bool is_seen[NODES];
    int count = 0;
    long sum = 0;
    node *at, one;
    need(cudaMemcpyFromSymbol(&at, list, sizeof at) == cudaSuccess, "the kernel");
    for (; at && count <= NODES; at = one.next, count++) {
        need(cudaMemcpy(&one, at, sizeof one, cudaMemcpyDeviceToHost) == cudaSuccess, "a node");
        if (one.value < 0 || one.value >= NODES || is_seen[one.value])
            return -1;
        is_seen[one.value] = true;
        sum += one.value;
    }
    std::printf("%d nodes, sum %ld\n", count, sum);
    return count;
}

int main() {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle handle;
    uint64_t leaked;
    if (acre_open("cuda", nullptr, &device) != ACRE_OK) {
        std::fprintf(stderr, "this example needs a GPU: %s\n", acre_last_detail());
        return 77;
    }
    need(acre_heap_create(device, nullptr, &heap) == ACRE_OK, "acre_heap_create");
    need(acre_heap_get_handle(heap, &handle) == ACRE_OK, "acre_heap_get_handle");
    build_list<<<BLOCKS, THREADS>>>(handle);
    int count = read_list();
    free_list<<<1, 1>>>(handle);
    need(cudaDeviceSynchronize() == cudaSuccess, "the kernel");
    need(acre_heap_destroy(heap, &leaked, nullptr) == ACRE_OK, "acre_heap_destroy");
    need(acre_close(device) == ACRE_OK, "acre_close");
    bool is_good = count == NODES && leaked == 0;
    std::printf("%s\n",
                is_good ? "every node was found once, and all memory was freed" : "THIS IS WRONG");
    return is_good ? 0 : 1;
}

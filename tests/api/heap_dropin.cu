// The drop-in with nvcc: a typical file of a CUDA program. test_heap_languages.sh compiles it.
#include <cstdlib>
#include <memory>
#include <vector>

#define ACRE_HEAP_AS_MALLOC
#include <acre_heap.h>

#include <map>
#include <string>

struct hooks {
    void *(*malloc)(size_t);
    void (*free)(void *);
};

__global__ void take(void **at, int bytes) {
    at[0] = malloc(bytes);
    at[1] = std::malloc(bytes);
    at[2] = __nv_aligned_device_malloc(bytes, 256);
}

__global__ void give(void **at) {
    free(at[0]);
    std::free(at[1]);
    free(at[2]);
}

int main() {
    hooks own = {malloc, free};
    void *p = own.malloc(10), *q = std::malloc(10);
    std::map<std::string, std::vector<int>> words{{"one", {1, 2, 3}}};
    own.free(p);
    free(q);
    return acre_heap_as_malloc(nullptr) == ACRE_OK && words.size() == 1 ? 0 : 77;
}

// acre_heap.hpp in kernels; test_heap_languages.sh compiles it.
#include <cooperative_groups.h>

#include <acre_heap.hpp>

namespace cg = cooperative_groups;

struct node {
    node *next;
    int value;
    __device__ node(node *n, int v) : next(n), value(v) {
    }
};

__global__ void build(acre_heap_handle h, node **list, int *sums) {
    acre::heap_ptr<node> mine = acre::make_heap<node>(h, *list, 1);
    if (mine)
        *list = mine.release();
    acre::heap_allocator<int> ints(h);
    int *p = ints.allocate(10);
    if (p)
        sums[threadIdx.x] = p[0] = 1;
    ints.deallocate(p, 10);
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    void *shared_by_tile = acre::heap_allocate(h, tile, 100);
    acre::heap_deallocate(h, tile, shared_by_tile);
    auto active = cg::coalesced_threads();
    acre::heap_deallocate(h, active, acre::heap_allocate(h, active, 100));
    __shared__ void *slot;
    cg::thread_block block = cg::this_thread_block();
    acre::heap_deallocate(h, block, acre::heap_allocate(h, block, 1000, &slot));
    __shared__ acre_heap_block_arena arena;
    acre_heap_block_arena_open(h, &arena, 1 << 16);
    sums[threadIdx.x] += acre_heap_block_arena_malloc(h, &arena, 64) != nullptr;
    acre_heap_block_arena_close(h, &arena);
}

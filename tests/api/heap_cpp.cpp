// acre_heap.hpp in C++17, in kernels of the soft device. test_heap_languages.sh compiles and runs
// it.
#include <acre_heap.hpp>

#include <cstdio>
#include <utility>

namespace {

struct job {
    acre_heap_handle h;
    unsigned failures, alive;
};

void fail(job *work, const char *what) {
    std::printf("check failed: %s\n", what);
    __atomic_fetch_add(&work->failures, 1, __ATOMIC_RELAXED);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(work, #condition))

struct counted {
    job *work;
    int value;
    counted(job *w, int v) : work(w), value(v) {
        __atomic_fetch_add(&work->alive, 1, __ATOMIC_RELAXED);
    }
    ~counted() {
        __atomic_fetch_sub(&work->alive, 1, __ATOMIC_RELAXED);
    }
};

struct alignas(256) wide {
    char bytes[512];
};

struct only_movable {
    explicit only_movable(acre::heap_ptr<counted> &&p) : inner(std::move(p)) {
    }
    acre::heap_ptr<counted> inner;
};

// Stands for a group of cooperative groups: the lanes of a warp.
struct lanes {
    unsigned mask;
    unsigned thread_rank() const {
        return (unsigned)__builtin_popcount(mask & ((1u << acre_soft_lane()) - 1));
    }
    unsigned long long shfl(unsigned long long value, unsigned rank) const {
        return acre_soft_shfl(mask, value, (unsigned)__builtin_ctz(mask) + rank);
    }
    void sync() const {
        acre_soft_syncwarp(mask);
    }
};

struct block {
    unsigned thread_rank() const {
        return acre_soft_thread_index(0);
    }
    void sync() const {
        acre_soft_syncthreads();
    }
};

struct link {
    acre::heap_ptr<link> next;
    int value;
    link(acre::heap_ptr<link> &&n, int v) : next(std::move(n)), value(v) {
    }
};

void lists(job *work) {
    acre::heap_ptr<link> head;
    for (int i = 0; i < 3; i++)
        head = acre::make_heap<link>(work->h, std::move(head), i);
    for (int i = 3; i-- > 0;) {
        CHECK(head && head->value == i);
        head = std::move(head->next); // destroys the node that `next` is in
    }
    CHECK(!head);
    acre::heap_ptr<const int> constant = acre::make_heap<const int>(work->h, 5);
    CHECK(constant && *constant == 5);
}

void pointers(job *work) {
    acre::heap_ptr<counted> p = acre::make_heap<counted>(work->h, work, 7);
    CHECK(p && p->value == 7 && (*p).value == 7);
    acre::heap_ptr<counted> q = std::move(p);
    CHECK(!p && q && q->value == 7);
    p = acre::make_heap<counted>(work->h, work, 8);
    q = std::move(p); // destroys 7
    CHECK(!p && q->value == 8);
    acre::heap_ptr<only_movable> r = acre::make_heap<only_movable>(work->h, std::move(q));
    CHECK(!q && r && r->inner->value == 8);
    counted *mine = r->inner.release();
    r.reset();
    CHECK(!r && mine->value == 8);
    acre::heap_destroy(work->h, mine);
    acre::heap_destroy(work->h, static_cast<counted *>(nullptr));
    acre::heap_ptr<wide> w = acre::make_heap<wide>(work->h);
    CHECK(w && reinterpret_cast<uintptr_t>(w.get()) % 256 == 0);
    acre::heap_ptr<int> none;
    CHECK(!none && none.get() == nullptr);
}

void allocators(job *work) {
    acre::heap_allocator<int> ints(work->h);
    acre::heap_allocator<wide> wides(ints);
    int *p = ints.allocate(100);
    CHECK(p);
    p[99] = 1;
    ints.deallocate(p, 100);
    wide *q = wides.allocate(2);
    CHECK(q && reinterpret_cast<uintptr_t>(q) % 256 == 0);
    wides.deallocate(q, 2);
    CHECK(ints.allocate(SIZE_MAX / 2) == nullptr);
    CHECK(ints == wides && !(ints != wides));
}

void kernel(void *arg) {
    job *work = static_cast<job *>(arg);
    lists(work);
    pointers(work);
    allocators(work);
    lanes warp = {acre_soft_activemask()};
    int *p = static_cast<int *>(acre::heap_allocate(work->h, warp, 32 * sizeof *p));
    CHECK(p);
    p[warp.thread_rank()] = static_cast<int>(warp.thread_rank());
    warp.sync();
    CHECK(p[0] == 0);
    acre::heap_deallocate(work->h, warp, p);
    block all;
    p = static_cast<int *>(acre::heap_allocate(work->h, all, 64 * sizeof *p,
                                               static_cast<void **>(acre_soft_shared())));
    CHECK(p);
    p[all.thread_rank()] = 5;
    acre::heap_deallocate(work->h, all, p);
}

} // namespace

int main() {
    acre_device *device = nullptr;
    acre_stream stream = nullptr;
    acre_heap *heap = nullptr;
    job work = {};
    uint64_t blocks = 1, bytes = 1;
    const uint32_t grid[3] = {4, 1, 1}, threads[3] = {64, 1, 1};
    if (acre_open("soft", nullptr, &device) != ACRE_OK ||
        acre_heap_create(device, nullptr, &heap) != ACRE_OK ||
        acre_heap_get_handle(heap, &work.h) != ACRE_OK ||
        acre_soft_launch(device, stream, kernel, grid, threads, 64, &work) != ACRE_OK ||
        acre_stream_sync(device, stream) != ACRE_OK ||
        acre_heap_destroy(heap, &blocks, &bytes) != ACRE_OK || acre_close(device) != ACRE_OK) {
        std::printf("%s\n", acre_last_detail());
        return 1;
    }
    std::printf("failures %u, objects %u, leaked blocks %u\n", work.failures, work.alive,
                static_cast<unsigned>(blocks));
    return work.failures || work.alive || blocks ? 1 : 0;
}

// The drop-in in C++17: standard headers on both sides of it, std::malloc, members called free,
// addresses of functions, new and delete. test_heap_languages.sh compiles and runs it.
#include <cstdio>
#include <memory>
#include <vector>

struct before {
    int freed = 0;
    void free() {
        freed++;
    }
};

#define ACRE_HEAP_AS_MALLOC
#include <acre_heap.h>

#include <cstdlib>
#include <map>
#include <string>

namespace {

struct owner {
    void *p = nullptr;
    int freed = 0;
    void free() {
        freed++;
    } // a member, not the function
    void free(void *q, int) {
        p = q;
    }
};

struct job {
    acre_heap_handle h;
    unsigned failures;
};

void fail(job *work, const char *what) {
    std::printf("check failed: %s\n", what);
    __atomic_fetch_add(&work->failures, 1, __ATOMIC_RELAXED);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(work, #condition))

void kernel(void *arg) {
    job *work = static_cast<job *>(arg);
    void *p = malloc(100), *q = std::malloc(100);
    void *(*take)(size_t) = std::malloc; // the address of malloc is the C library's
    void (*give)(void *) = free;
    void *r = take(100);
    CHECK(acre_heap_owns(work->h, p) && acre_heap_owns(work->h, q) && !acre_heap_owns(work->h, r));
    owner some;
    some.free();
    some.free(p, 1);
    before old;
    (old.free)();
    CHECK(some.freed == 1 && some.p == p && old.freed == 1);
    free(p);
    std::free(q);
    give(r);
    std::unique_ptr<int> own(new int(3)); // new calls the C++ library
    CHECK(!acre_heap_owns(work->h, own.get()));
    void *aligned = __nv_aligned_device_malloc(100, 512);
    CHECK(aligned && reinterpret_cast<uintptr_t>(aligned) % 512 == 0);
    free(aligned);
}

} // namespace

int main() {
    acre_device *device = nullptr;
    acre_heap *heap = nullptr;
    job jobs = {}, *work = &jobs;
    uint64_t blocks = 1;
    const uint32_t grid[3] = {4, 1, 1}, block[3] = {64, 1, 1};
    CHECK(acre_open("soft", nullptr, &device) == ACRE_OK);
    CHECK(acre_heap_create(device, nullptr, &heap) == ACRE_OK);
    CHECK(acre_heap_get_handle(heap, &jobs.h) == ACRE_OK);
    CHECK(acre_heap_as_malloc(heap) == ACRE_OK);
    CHECK(acre_soft_launch(device, nullptr, kernel, grid, block, 0, &jobs) == ACRE_OK);
    CHECK(acre_stream_sync(device, nullptr) == ACRE_OK);
    void *p = malloc(10), *q = std::calloc(1, 10);
    CHECK(!acre_heap_owns(jobs.h, p) && !acre_heap_owns(jobs.h, q));
    std::free(p);
    free(q);
    std::map<std::string, std::vector<int>> words{{"one", {1, 2, 3}}};
    CHECK(words["one"].size() == 3);
    acre_heap_stats stats = {};
    stats.struct_size = sizeof stats;
    CHECK(acre_heap_get_stats(heap, &stats) == ACRE_OK);
    CHECK(stats.foreign_frees + stats.double_frees + stats.interior_frees == 0);
    CHECK(acre_heap_destroy(heap, &blocks, nullptr) == ACRE_OK && blocks == 0);
    CHECK(acre_close(device) == ACRE_OK);
    return jobs.failures != 0;
}

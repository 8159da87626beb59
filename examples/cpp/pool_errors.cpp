// Allocates from a pool in stream order, and handles the lack of memory: by exception, by result,
// and by a callback that frees a cache.
#include <acre/acre.hpp>

#include <cstdio>
#include <vector>

static const size_t MIB = 1 << 20;

int main() {
    acre::device device; // the first GPU, or the soft device
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    acre::pool pool(device);
    pool.set_limits(0, 64 * MIB);

    // Freed in stream order: the fill may still run when the memory goes back to the pool.
    void *p = pool.allocate(16 * MIB, stream);
    device.fill(p, 1, 16 * MIB, stream);
    pool.deallocate(p, stream);

    // By exception: acre::out_of_memory is a std::bad_alloc with acre's report.
    bool threw = false;
    try {
        (void)pool.allocate(100 * MIB, stream);
    } catch (const acre::out_of_memory &e) {
        std::printf("%s\n%s", e.what(), e.report().c_str());
        threw = true;
    }

    // By result, for programs without exceptions.
    acre::result<void *> refused = pool.try_allocate(100 * MIB, stream);
    std::printf("try_allocate: %s\n", acre_status_name(refused.status()));

    // A cache that is dropped when the pool needs memory. Blocks free themselves. If other threads
    // used the pool, too, the cache would need a lock: the callback runs in the allocating thread.
    std::vector<acre::device_buffer> cache;
    for (int i = 0; i < 3; i++)
        cache.emplace_back(pool, 16 * MIB, stream);
    acre::oom_callback drop(pool, [&](uint64_t wanted, uint32_t) {
        std::printf("the pool needs %zu MiB: dropping one of %zu buffers\n", size_t(wanted) / MIB,
                    cache.size());
        if (cache.empty())
            return false;
        cache.pop_back();
        return true;
    });
    acre::device_buffer large(pool, 40 * MIB, stream);
    std::printf("%zu buffers left, %llu MiB live\n", cache.size(),
                static_cast<unsigned long long>(pool.stats().live_bytes / MIB));
    return threw && !refused && cache.size() == 1 ? 0 : 1;
}

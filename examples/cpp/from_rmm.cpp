/* What a program on RMM does, on acre: a pool with a limit, buffers in stream order, peaks by
 * purpose, and what to do when memory runs out. docs/from-rmm.md shows both. Runs with and without
 * a GPU. */
#include <acre/acre.hpp>

#include <cstdio>
#include <vector>

int main() {
    acre::device device; /* the GPU, or the soft device */
    acre::stream stream(device);

    acre_pool_options options = {};
    options.initial_bytes = 8 << 20;
    options.limit_bytes = 64 << 20;
    acre::pool pool(device, options);

    std::vector<float> in(1 << 20, 2.5f), out(in.size());
    const size_t bytes = in.size() * sizeof(float);
    acre::check(acre_tag_push("step"));
    void *buffer = pool.allocate(bytes, stream);
    device.copy(buffer, in.data(), bytes, stream);
    device.copy(out.data(), buffer, bytes, stream);
    stream.sync();
    pool.deallocate(buffer, stream); /* in stream order: needs no sync */
    acre::check(acre_tag_pop());

    int is_refused = 0;
    try {
        buffer = pool.allocate(256 << 20, stream);
    } catch (const acre::out_of_memory &error) { /* a std::bad_alloc */
        is_refused = error.status() == ACRE_E_LIMIT && !error.report().empty();
    }

    uint64_t peak = 0;
    acre::check(acre_tag_walk(
        [](void *user, const acre_tag_info *tag) {
            *static_cast<uint64_t *>(user) = tag->peak_bytes;
            return 0;
        },
        &peak));
    std::printf("%g, %llu MiB at the peak, %s, %llu blocks live\n", out.back(),
                static_cast<unsigned long long>(peak >> 20),
                is_refused ? "256 MiB refused" : "not limited",
                static_cast<unsigned long long>(pool.stats().live_blocks));
    return out == in && is_refused && peak == bytes && pool.stats().live_blocks == 0 ? 0 : 1;
}

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
    {
        acre::tag_scope tag("step");
        acre::device_buffer buffer(pool, in.data(), bytes, stream);
        device.copy(out.data(), buffer.data(), bytes, stream);
        stream.sync();
    } /* freed in stream order */

    bool is_refused = false;
    try {
        acre::device_buffer large(pool, 256 << 20, stream);
    } catch (const acre::out_of_memory &error) { /* a std::bad_alloc */
        is_refused = error.status() == ACRE_E_LIMIT && !error.report().empty();
    }

    uint64_t peak = 0;
    acre::walk_tags([&](const acre_tag_info &tag) { peak = tag.peak_bytes; });
    const unsigned long long live = pool.stats().live_blocks;
    std::printf("%g, %llu MiB at the peak, %s, %llu blocks live\n", out.back(),
                static_cast<unsigned long long>(peak >> 20),
                is_refused ? "256 MiB refused" : "not limited", live);
    return out == in && is_refused && peak == bytes && live == 0 ? 0 : 1;
}

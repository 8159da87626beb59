// The program of docs/from-umpire.md: a limited pool, allocations counted by name, copies.
#include <acre/acre.hpp>

#include <cstdio>
#include <vector>

int main() {
    acre::device device;
    acre::stream stream(device);
    acre::pool pool(device); // grows by itself; no sizes to choose
    pool.set_limits(0, size_t(512) << 20);

    std::vector<double> host(1000, 2.0), back(1000);
    {
        acre::tag_scope tag("fields"); // what a named allocator is for
        acre::unique_ptr<double[]> x = acre::make_unique<double[]>(pool, 1000, stream);
        acre::unique_ptr<double[]> y = acre::make_unique<double[]>(pool, 1000, stream);
        device.copy(x.get(), host.data(), 8000, stream);
        device.copy(y.get(), x.get(), 8000, stream);
        device.fill(x.get(), 0, 8000, stream);
        device.copy(back.data(), y.get(), 8000, stream);

        acre::walk_tags([](const acre_tag_info &info) {
            std::printf("%s: %llu bytes now, %llu at most\n", info.path,
                        (unsigned long long)info.live_bytes, (unsigned long long)info.peak_bytes);
        });
    } // freed in stream order
    stream.sync();
    pool.trim(); // coalesce() and release(): back to the driver
    std::printf("%g, %llu bytes held\n", back[999], (unsigned long long)pool.stats().held_bytes);
    return back[999] == 2.0 ? 0 : 1;
}

// The program of the section "C++" in docs/guide.md: owners, a pool, containers, errors.
#include <acre/acre.hpp>
#include <acre/cpp/pmr.hpp>

#include <cstdio>

int main() {
    acre::device device;         // the first GPU, or the soft device; closed last
    acre::stream stream(device); // objects are destroyed in reverse order
    acre::pool pool(device);

    acre::device_buffer scratch(pool, 1 << 20, stream); // bytes, freed in stream order
    device.fill(scratch.data(), 0, scratch.size(), stream);

    acre::device_vector<float> x(device, {1, 2, 3}, stream); // grows in place
    x.append({4, 5});

    acre::pmr_resource resource(device);               // the device's default pool of pinned memory
    std::pmr::vector<float> host(x.size(), &resource); // pinned: copies run at full speed
    x.copy_to(host.data(), host.size());
    stream.sync();
    std::printf("%g ... %g\n", double(host.front()), double(host.back()));

    try {
        scratch.resize(size_t(1) << 50);
    } catch (const acre::out_of_memory &e) { // a std::bad_alloc
        std::printf("%s: the buffer still has %zu bytes\n", acre_status_name(e.status()),
                    scratch.size());
    }
    return host.back() == 5 && scratch.size() == 1 << 20 ? 0 : 1;
}

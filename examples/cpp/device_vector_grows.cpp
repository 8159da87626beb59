// A vector on the device that grows in place: its address stays, and nothing is copied.
#include <acre/acre.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
    acre::device device;
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);

    acre::device_vector<int> numbers(device, {1, 2, 3}, stream);
    const int *first = numbers.data();

    std::vector<int> more(1 << 20);
    std::iota(more.begin(), more.end(), 4);
    for (int i = 0; i < 8; i++)
        numbers.append(more);
    bool is_in_place = numbers.data() == first && numbers.ref().info().copied_bytes == 0;
    std::printf("%zu elements at %p, %s\n", numbers.size(), static_cast<const void *>(first),
                is_in_place ? "grown in place" : "moved");

    // Kernels get data() and size(), or a std::span in C++20. The host gets a copy.
    std::vector<int> host = numbers.to_host();
    std::printf("the last one is %d\n", host.back());

    numbers.resize(3);
    numbers.shrink_to_fit();
    std::printf("%zu elements, %llu KiB mapped\n", numbers.size(),
                static_cast<unsigned long long>(numbers.ref().mapped_bytes() / 1024));
    bool has_vmm = device.info().has_vmm != 0; // without it, growth copies
    return host.back() == (1 << 20) + 3 && (is_in_place || !has_vmm) ? 0 : 1;
}

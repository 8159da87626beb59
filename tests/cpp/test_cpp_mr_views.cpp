/* acre::view of pinned memory of the soft device, which the host can read. */
#include <acre/cpp/mdspan.hpp>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include <acre.h>

#include "mr_expect.hpp"

using rows = cuda::std::dextents<int, 2>;

static void rows_and_columns(acre::pool_ref pool) {
    float *p = static_cast<float *>(pool.allocate(6 * sizeof(float), nullptr));
    for (int i = 0; i < 6; i++)
        p[i] = static_cast<float>(i);
    auto by_row = acre::view<float>(pool, p, rows(2, 3));
    auto by_column = acre::view<float, cuda::std::layout_left>(pool, p, rows(2, 3));
    EXPECT(by_row(1, 0) == 3 && by_row(0, 2) == 2 && by_row.extent(1) == 3);
    EXPECT(by_column(1, 0) == 1 && by_column(0, 2) == 4);
    by_row(1, 2) = 9;
    EXPECT(p[5] == 9);
    auto fixed = acre::view<const float>(p, 6 * sizeof(float), cuda::std::extents<int, 3, 2>());
    EXPECT(fixed(2, 1) == 9);
    pool.deallocate(p, nullptr);
}

static void sizes_are_checked(acre::pool_ref pool) {
    char *p = static_cast<char *>(pool.allocate(4096, nullptr));
    const size_t usable = pool.usable_size(p);
    EXPECT(acre::view<char>(pool, p, cuda::std::dextents<size_t, 1>(usable)).size() == usable);
    EXPECT_THROWS(std::length_error,
                  acre::view<char>(pool, p, cuda::std::dextents<size_t, 1>(usable + 1)));
    EXPECT_THROWS(std::length_error, acre::view<double>(p, 4096, rows(2, 257)));
    EXPECT_THROWS(std::length_error, acre::view<double>(p + 4, 4000, rows(1, 1)));
    EXPECT_THROWS(std::length_error, acre::view<char>(p, 4096, rows(-1, 2)));
    /* 2^32 * 2^32 is 0 in 64 bits, and 2^16 * 2^16 is 0 in 32. */
    EXPECT_THROWS(
        std::length_error,
        acre::view<char>(p, 4096, cuda::std::dextents<size_t, 2>(1ull << 32, 1ull << 32)));
    EXPECT_THROWS(std::length_error, acre::view<char>(p, 4096, rows(1 << 16, 1 << 16)));
    EXPECT_THROWS(std::length_error, acre::view<char>(pool, p + 1, rows(1, 1))); /* no block */
    EXPECT(acre::view<char>(p, 4096, rows(0, 1 << 30)).size() == 0);
    EXPECT((acre::view<char>(p, 4096, cuda::std::extents<uint8_t, 200>()).size() == 200));
    EXPECT_THROWS(std::length_error,
                  acre::view<char>(p, 4096, cuda::std::dextents<uint8_t, 2>(200, 2)));
    pool.deallocate(p, nullptr);
}

static void containers_are_viewed() {
    std::vector<int> numbers(12);
    auto cube = acre::view(numbers, cuda::std::extents<int, 2, 3, 2>());
    cube(1, 2, 1) = 5;
    EXPECT(numbers[11] == 5);
    const std::vector<int> fixed(4, 1);
    EXPECT(acre::view<cuda::std::layout_left>(fixed, rows(2, 2))(1, 1) == 1);
    EXPECT_THROWS(std::length_error, acre::view(numbers, rows(1, 13)));
}

int main() {
    acre::device device("soft");
    acre::pool pool(device, ACRE_KIND_PINNED);
    rows_and_columns(pool);
    sizes_are_checked(pool);
    containers_are_viewed();
    return failures ? 1 : 0;
}

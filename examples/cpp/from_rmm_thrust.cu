/* Thrust with temporary storage from acre, as with rmm::exec_policy. Needs a GPU. */
#include <acre/cpp/thrust.hpp>

#include <thrust/device_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <cstdio>

int main() {
    acre::device device("cuda");
    acre::stream stream(device);
    acre::pool_ref pool = acre::pool_ref::default_of(device);

    thrust::device_vector<int, acre::allocator<int>> keys(1 << 20,
                                                          acre::allocator<int>(pool, stream));
    thrust::sequence(acre::par(pool).on(stream), keys.rbegin(), keys.rend());
    thrust::sort(acre::par_nosync(pool).on(stream), keys.begin(), keys.end());
    stream.sync();
    std::printf("%d %d\n", static_cast<int>(keys.front()), static_cast<int>(keys.back()));
    return keys.front() == 0 && keys.back() == (1 << 20) - 1 ? 0 : 1;
}

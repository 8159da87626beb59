/* acre's allocators for Thrust, and the temporary storage of its policies, on the soft device. A
 * host compiler can use Thrust's policies but not its algorithms: those run in tests/gpu/cpp. */
#include <acre/cpp/thrust.hpp>

#include <thrust/detail/temporary_array.h>

#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <acre.h>

#include "cpp_lag.hpp"
#include "mr_expect.hpp"

/* Elements that need more than the 256 bytes of alignment that every block has. */
struct alignas(1024) wide {
    char bytes[1024];
};

static void allocators_use_their_pool(acre::device_ref device) {
    acre::pool pool(device), other(device);
    acre::stream stream(device);
    acre::allocator<int> ints(pool, stream);
    acre::allocator<wide> wides = ints;
    EXPECT(ints == acre::allocator<int>(wides));
    EXPECT(ints != acre::allocator<int>(other, stream));
    EXPECT(ints != acre::allocator<int>(pool)); /* another stream frees in another order */
    using rebound = typename std::allocator_traits<acre::allocator<int>>::rebind_alloc<wide>;
    static_assert(std::is_same_v<rebound, acre::allocator<wide>>);

    thrust::device_ptr<int> p = ints.allocate(100);
    EXPECT(pool.usable_size(p.get()) >= 100 * sizeof(int));
    thrust::device_ptr<wide> q = wides.allocate(3);
    EXPECT(reinterpret_cast<std::uintptr_t>(q.get()) % 1024 == 0);
    wides.deallocate(q, 3);
    ints.deallocate(p, 100);
    ints.deallocate(thrust::device_ptr<int>(), 0);
    EXPECT(pool.stats().live_blocks == 0);
    EXPECT_THROWS(std::bad_alloc, ints.allocate(SIZE_MAX / 4 + 2)); /* 4 bytes modulo 2^64 */
    EXPECT_THROWS(std::bad_alloc, ints.allocate(std::size_t(1) << 50));
}

/* Blocks are freed in the order of the allocator's stream, while work of that stream uses them. */
static void allocators_free_on_their_stream(acre::device_ref device) {
    acre::pool pool(device);
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    const std::size_t bytes = 1 << 20;
    cpp_lag lag(device);
    acre::allocator<char> chars(pool, stream);
    thrust::device_ptr<char> p = chars.allocate(bytes);
    device.fill(p.get(), 1, bytes, stream);
    chars.deallocate(p, bytes);
    EXPECT(cpp_freed_in_order(lag, device, pool, p.get(), bytes, stream));
    acre::temporary_allocator storage(pool, stream);
    char *q = storage.allocate(bytes);
    device.fill(q, 1, bytes, stream);
    storage.deallocate(q, bytes);
    EXPECT(cpp_freed_in_order(lag, device, pool, q, bytes, stream));
}

/* The storage is allocated and freed on the stream of the policy, and on no other: the next request
 * of that stream gets it back at once, while work of the stream is still running. */
template <class Policy>
static void storage_follows_the_stream(Policy policy, acre::device_ref device, acre::pool_ref pool,
                                       acre_stream stream) {
    EXPECT(thrust::cuda_cub::stream(policy) == stream);
    const std::ptrdiff_t bytes = 1 << 20;
    auto storage = thrust::get_temporary_buffer<char>(policy, bytes);
    char *p = thrust::raw_pointer_cast(storage.first);
    EXPECT(storage.second == bytes && pool.usable_size(p) >= std::size_t(bytes));
    for (int i = 0; i < 20; i++)
        device.fill(p, 1, bytes, stream);
    thrust::return_temporary_buffer(policy, storage.first, bytes);
    EXPECT(!pool.owns(p));
    void *again = pool.allocate(bytes, stream);
    EXPECT(again == p);
    pool.deallocate(again, stream);
    EXPECT(pool.stats().live_blocks == 0);
}

int main() {
    acre::device device("soft");
    allocators_use_their_pool(device);
    allocators_free_on_their_stream(device);
    acre::stream stream(device);
    acre::pool one(device), two(device), three(device);
    storage_follows_the_stream(acre::par(one).on(stream), device, one, stream.get());
    storage_follows_the_stream(acre::par_nosync(two).on(stream), device, two, stream.get());
    storage_follows_the_stream(
        thrust::cuda::par(acre::temporary_allocator(three, stream)).on(stream.get()), device, three,
        stream.get());
    EXPECT(!must_perform_optional_stream_synchronization(acre::par_nosync(two).on(stream)));
    return failures ? 1 : 0;
}

/* acre::rmm_resource on the soft device, against stand-ins of RMM's headers: with the class of
 * RMM 24.x and 25.x (tests/cpp/fake_rmm_class), and without it, as later versions are. */
#include <acre/cpp/rmm.hpp>

#include <cstring>
#include <new>

#include <acre.h>

#include "cpp_lag.hpp"
#include "mr_expect.hpp"

#if __has_include(                                                                                 \
    <rmm/mr/device/device_memory_resource.hpp>) || __has_include(<rmm/mr/device_memory_resource.hpp>)

/* RMM's adaptors and containers hold a pointer to the base class. */
static void through_the_base_class(acre::device_ref device) {
    acre::pool pool(device);
    acre::rmm_resource resource(pool), same(pool), other(device);
    rmm::mr::device_memory_resource *base = &resource;
    acre::stream stream(device);
    void *p = base->allocate(1000, stream.get());
    EXPECT(pool.owns(p) && pool.usable_size(p) >= 1000);
    base->deallocate(p, 1000, stream.get());
    EXPECT(!pool.owns(p));
    EXPECT(base->is_equal(same) && !base->is_equal(other));
    p = base->allocate(10);
    same.deallocate(p, 10);
    base->deallocate(nullptr, 0);
    base->deallocate(&stream, 4); /* refused, and does not throw */
    EXPECT(std::strstr(acre_last_detail(), "acre_pool_free"));
    EXPECT(pool.stats().live_blocks == 0);
}

static void *allocate(acre::rmm_resource &resource, size_t bytes, acre_stream stream = nullptr) {
    return resource.allocate(bytes, rmm::cuda_stream_view(stream));
}

static void deallocate(acre::rmm_resource &resource, void *p, size_t bytes, acre_stream stream) {
    resource.deallocate(p, bytes, rmm::cuda_stream_view(stream));
}

#else

static void through_the_base_class(acre::device_ref device) {
    acre::pool pool(device);
    acre::rmm_resource resource(pool), same = resource, other(device);
    cuda::stream_ref stream{cudaStream_t(nullptr)};
    void *p = resource.allocate(stream, 1000);
    EXPECT(pool.owns(p));
    same.deallocate(stream, p, 1000);
    EXPECT(pool.stats().live_blocks == 0);
    EXPECT(resource == same && resource != other);
    p = resource.allocate_sync(100, 1024);
    EXPECT(pool.owns(p));
    resource.deallocate_sync(p, 100, 1024);
    EXPECT(pool.stats().live_blocks == 0);
}

static void *allocate(acre::rmm_resource &resource, size_t bytes, acre_stream stream = nullptr) {
    return resource.allocate(cuda::stream_ref(stream), bytes);
}

static void deallocate(acre::rmm_resource &resource, void *p, size_t bytes, acre_stream stream) {
    resource.deallocate(cuda::stream_ref(stream), p, bytes);
}

#endif

/* Blocks are freed in the order of the given stream, while work of that stream uses them. */
static void frees_on_the_given_stream(acre::device_ref device) {
    acre::pool pool(device);
    acre::rmm_resource resource(pool);
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    const size_t bytes = 1 << 20;
    cpp_lag lag(device);
    void *p = allocate(resource, bytes, stream.get());
    device.fill(p, 1, bytes, stream);
    deallocate(resource, p, bytes, stream.get());
    EXPECT(cpp_freed_in_order(lag, device, pool, p, bytes, stream));
}

static void throws_as_rmm_does(acre::device_ref device) {
    acre_pool_options options = {};
    options.limit_bytes = 1 << 20;
    acre::pool pool(device, options);
    acre::rmm_resource resource(pool);
    EXPECT_THROWS(std::bad_alloc, allocate(resource, 1 << 24));
    try {
        allocate(resource, 1 << 24);
        EXPECT(false);
    } catch (const rmm::out_of_memory &error) {
        EXPECT(std::strstr(error.what(), "ACRE_E_LIMIT"));
        EXPECT(std::strstr(error.what(), "acre_pool_alloc"));
    }
}

int main() {
    acre::device device("soft");
    through_the_base_class(device);
    frees_on_the_given_stream(device);
    throws_as_rmm_does(device);
    return failures ? 1 : 0;
}

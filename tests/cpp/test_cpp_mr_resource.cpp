/* acre::memory_resource on the soft device. The program is compiled twice: against the CCCL of the
 * installed toolkit, and against tests/cpp/later_cccl, which has the names of CCCL 3.1 and later.
 */
#include <acre/cpp/memory_resource.hpp>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <acre.h>

#include "mr_expect.hpp"

static bool is_aligned(const void *p, size_t alignment) {
    return p && reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

static void blocks_in_stream_order(acre::device_ref device) {
    acre::stream own(device);
    cuda::stream_ref stream(own.get());
    acre::device_memory_resource resource(device);
    void *p = resource.allocate(stream, 1000, 16);
    EXPECT(is_aligned(p, 256));
    EXPECT(resource.pool().owns(p));
    EXPECT(resource.pool().usable_size(p) >= 1000);
    resource.deallocate(stream, p, 1000, 16);
    EXPECT(!resource.pool().owns(p));

    void *again = resource.allocate_async(1000, 16, stream);
    EXPECT(again == p); /* the same stream reuses the memory at once */
    resource.deallocate_async(again, 1000, 16, stream);
    again = resource.allocate_async(1000, stream);
    resource.deallocate_async(again, 1000, stream);
    EXPECT(resource.pool().stats().live_blocks == 0);
}

static void alignments_are_honoured(acre::device_ref device) {
    acre::device_memory_resource resource(device);
    cuda::stream_ref stream{cudaStream_t(nullptr)};
    std::vector<void *> blocks;
    for (size_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
        blocks.push_back(resource.allocate(stream, 300, alignment));
        EXPECT(is_aligned(blocks.back(), alignment));
        blocks.push_back(resource.allocate_sync(300, alignment));
        EXPECT(is_aligned(blocks.back(), alignment));
    }
    for (void *p : blocks)
        resource.deallocate(stream, p, 300);
    EXPECT_THROWS(acre::call_error, resource.allocate(stream, 300, 24));
    EXPECT_THROWS(acre::call_error, resource.allocate_sync(300, 24));
    EXPECT(resource.pool().stats().live_blocks == 0);
}

/* A synchronous block is ready for every stream. Its memory must not be that of a block freed
 * behind work that still runs, unless the call waited. */
static void synchronous_blocks_are_idle(acre::device_ref device) {
    acre::device_memory_resource resource(device);
    acre::stream busy(device);
    const size_t bytes = 1 << 20;
    void *p = resource.allocate(cuda::stream_ref(busy.get()), bytes);
    device.fill(p, 1, bytes, busy);
    resource.deallocate(cuda::stream_ref(busy.get()), p, bytes);
    void *sync = resource.allocate_sync(bytes);
    EXPECT(sync != p || acre_stream_query(device.get(), busy.get()) == ACRE_OK);
    resource.deallocate_sync(sync, bytes);
    void *next = resource.allocate(bytes, 256); /* the name of CCCL 3.0 */
    EXPECT(next == sync);                       /* the idle stream has it at once */
    resource.deallocate(next, bytes, 256);
    EXPECT(resource.pool().stats().live_blocks == 0);
}

/* The device has no other memory than that of a block freed behind work that still runs. The pool
 * may give it to the idle stream behind a wait. The call must then return only when the work is
 * done. */
static void short_of_memory_waits(acre::device_ref device) {
    const size_t bytes = device.info().total_bytes / 8 * 5;
    acre::pool pool(device);
    acre::device_memory_resource resource(pool);
    acre::stream busy(device);
    void *p = resource.allocate(cuda::stream_ref(busy.get()), bytes);
    for (int i = 0; i < 20; i++)
        device.fill(p, static_cast<uint8_t>(i), bytes, busy);
    resource.deallocate(cuda::stream_ref(busy.get()), p, bytes);
    void *sync = resource.allocate_sync(bytes);
    EXPECT(sync && acre_stream_query(device.get(), busy.get()) == ACRE_OK);
    resource.deallocate_sync(sync, bytes);
}

static void hosts_read_and_write(acre::device_ref device) {
    acre::pinned_memory_resource pinned(device);
    acre::managed_memory_resource managed(device);
    acre::mapped_memory_resource mapped(device);
    void *blocks[] = {pinned.allocate_sync(64), managed.allocate_sync(64),
                      mapped.allocate_sync(64)};
    for (void *p : blocks) {
        std::memset(p, 7, 64);
        EXPECT(static_cast<unsigned char *>(p)[63] == 7);
    }
    acre_kind kinds[] = {ACRE_KIND_PINNED, ACRE_KIND_MANAGED, ACRE_KIND_MAPPED};
    for (int i = 0; i < 3; i++) {
        acre_mem_info info = {};
        info.struct_size = sizeof info;
        acre::check(acre_mem_query(device.get(), blocks[i], &info));
        EXPECT(info.kind == kinds[i]);
    }
    pinned.deallocate_sync(blocks[0], 64);
    managed.deallocate_sync(blocks[1], 64);
    mapped.deallocate_sync(blocks[2], 64);
    EXPECT(!(pinned.pool() == managed.pool()));
}

static void equality_is_the_pool(acre::device_ref device) {
    acre::pool pool(device);
    acre::device_memory_resource one(device), two(device), other(pool);
    acre::device_memory_resource copy = other;
    EXPECT(one == two && !(one != two));
    EXPECT(one != other && copy == other);
    EXPECT(other.device() == device);
    EXPECT_THROWS(std::invalid_argument, acre::pinned_memory_resource(pool.ref()));
    cuda::stream_ref stream{cudaStream_t(nullptr)};
    void *p = one.allocate(stream, 64);
    two.deallocate(stream, p, 64); /* equal: frees what the other allocated */
    EXPECT(one.pool().stats().live_blocks == 0);
}

static void failures_throw(acre::device_ref device) {
    acre_pool_options options = {};
    options.limit_bytes = 1 << 20;
    acre::pool pool(device, options);
    acre::device_memory_resource resource(pool);
    cuda::stream_ref stream{cudaStream_t(nullptr)};
    EXPECT_THROWS(std::bad_alloc, resource.allocate(stream, 1 << 30));
    EXPECT_THROWS(acre::out_of_memory, resource.allocate_sync(1 << 30));
    EXPECT_THROWS(std::bad_alloc, resource.allocate_async(1 << 30, 256, stream));
    EXPECT(resource.allocate(stream, 0) == nullptr);
    EXPECT(resource.allocate_sync(0) == nullptr);
}

static void wrong_frees_return(acre::device_ref device) {
    acre::device_memory_resource resource(device);
    cuda::stream_ref stream{cudaStream_t(nullptr)};
    int local = 0;
    resource.deallocate(stream, &local, 4);
    EXPECT(std::strstr(acre_last_detail(), "acre_pool_free"));
    resource.deallocate_sync(&local, 4);
    resource.deallocate_async(&local, 4, stream);
    resource.deallocate(stream, nullptr, 0);
    resource.deallocate_sync(nullptr, 0);
    void *p = resource.allocate(stream, 64);
    resource.deallocate(stream, p, 64);
    resource.deallocate(stream, p, 64);
    EXPECT(resource.pool().stats().live_blocks == 0);
    static_assert(noexcept(resource.deallocate(stream, p, 64)));
    static_assert(noexcept(resource.deallocate_sync(p, 64)));
}

/* The first synchronous calls of several threads create one idle stream. */
static void threads_share_the_idle_stream(acre::device_ref device) {
    acre::device_memory_resource resource(device);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([resource]() mutable {
            for (int round = 0; round < 50; round++) {
                void *p = resource.allocate_sync(4096);
                EXPECT(p);
                resource.deallocate_sync(p, 4096);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT(resource.pool().stats().live_blocks == 0);
}

/* A resource may outlive its device, but not be used then. */
static void destroyed_after_the_device() {
    acre::device device("soft");
    acre::device_memory_resource resource(device);
    resource.deallocate_sync(resource.allocate_sync(64), 64);
    device.reset();
}

#if CCCL_VERSION >= 3001000
static void references_hold_a_resource(acre::device_ref device) {
    acre::device_memory_resource resource(device);
    static_assert(cuda::mr::synchronous_resource<acre::device_memory_resource>);
    static_assert(cuda::mr::resource<acre::pinned_memory_resource>);
    EXPECT(resource == resource);
}
#else
static void references_hold_a_resource(acre::device_ref device) {
    using cuda::mr::device_accessible;
    using cuda::mr::host_accessible;
    acre::device_memory_resource resource(device), same(device);
    acre::pinned_memory_resource pinned(device);
    cuda::stream_ref stream{cudaStream_t(nullptr)};
    cuda::mr::async_resource_ref<device_accessible> ref = resource, same_ref = same;
    cuda::mr::resource_ref<device_accessible> sync_ref = ref;
    EXPECT(ref == same_ref);
    void *p = ref.allocate_async(640, 64, stream);
    EXPECT(resource.pool().usable_size(p) >= 640);
    ref.deallocate_async(p, 640, 64, stream);
    p = sync_ref.allocate(640, 64);
    EXPECT(resource.pool().owns(p));
    sync_ref.deallocate(p, 640, 64);
    EXPECT(resource.pool().stats().live_blocks == 0);

    cuda::mr::async_resource_ref<host_accessible, device_accessible> both = pinned;
    EXPECT(ref != cuda::mr::async_resource_ref<device_accessible>(both));
    EXPECT_THROWS(std::bad_alloc, ref.allocate_async(size_t(1) << 60, 256, stream));
    static_assert(!std::is_constructible_v<cuda::mr::resource_ref<host_accessible>,
                                           acre::device_memory_resource &>);
    static_assert(cuda::mr::async_resource<acre::managed_memory_resource>);
}
#endif

int main() {
    acre_open_options options = {};
    options.struct_size = sizeof options;
    options.soft_bytes = 64 << 20;
    acre::device device("soft", options);
    blocks_in_stream_order(device);
    alignments_are_honoured(device);
    synchronous_blocks_are_idle(device);
    short_of_memory_waits(device);
    hosts_read_and_write(device);
    equality_is_the_pool(device);
    failures_throw(device);
    wrong_frees_return(device);
    threads_share_the_idle_stream(device);
    references_hold_a_resource(device);
    device.reset();
    destroyed_after_the_device();
    return failures ? 1 : 0;
}

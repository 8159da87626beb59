/* Memory that the host writes at once, streams that end before the objects that use them, errors of
 * other calls, and files compiled with and without exceptions (cpp_without.cpp) and RTTI
 * (cpp_without_rtti.cpp) in one program. */

/* A program may have a function with this name and argument: the headers must not call it. */
#include <acre/status.h>
void check(acre_status);

#include "cpp_cases.hpp"

#include <acre/cpp/heap.hpp>
#include <acre/cpp/pmr.hpp>
#include <acre_heap.hpp>
#include <acre_soft.h>

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <utility>

namespace {
bool is_out_of_host_memory; // operator new fails
}
void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
    return is_out_of_host_memory ? nullptr : std::malloc(bytes);
}
void *operator new(size_t bytes) {
    void *p = operator new(bytes, std::nothrow);
    return p ? p : throw std::bad_alloc();
}
void operator delete(void *p) noexcept {
    std::free(p);
}
void operator delete(void *p, size_t) noexcept {
    std::free(p);
}

namespace {

struct base {
    int x;
};
struct derived : base {
    int y;
};
static_assert(!std::is_constructible_v<acre::device_vector<base>, acre::device_ref,
                                       const std::vector<derived> &, acre::stream_ref>,
              "elements of a derived class have another size");
static_assert(std::is_constructible_v<acre::device_vector<base>, acre::device_ref,
                                      const std::array<base, 2> &, acre::stream_ref>,
              "a range of elements");

/* The bytes of a copy that was queued from a pinned block, before the block was freed in stream
 * order and the host filled new memory of the pool by `fill_from_host`. */
template <class Fill>
size_t changed_bytes(const char *device_name, bool is_legacy, Fill fill_from_host) {
    constexpr size_t bytes = 1 << 20;
    acre::device device(device_name);
    const bool is_soft = std::strncmp(device_name, "soft", 4) == 0;
    acre::stream created(device);
    const acre::stream_ref stream = is_legacy ? acre::stream_ref() : acre::stream_ref(created);
    acre::pool pinned(device, ACRE_KIND_PINNED);
    acre::memory to(device, ACRE_KIND_DEVICE, bytes);
    acre::device_buffer staging(pinned, bytes, stream);
    device.sync(stream);
    std::memset(staging.data(), 1, bytes);
    if (is_soft)
        acre::check(acre_soft_set_lag(device.get(), 20000, 0));
    device.copy(to.data(), staging.data(), bytes, stream);
    staging.reset();
    fill_from_host(pinned, stream, bytes);
    device.sync(stream);
    if (is_soft)
        acre::check(acre_soft_set_lag(device.get(), 0, 0));
    size_t changed = 0;
    for (unsigned char byte :
         cpp_read(device, static_cast<unsigned char *>(to.data()), bytes, stream))
        changed += byte != 1;
    return changed;
}

} // namespace

TEST(pmr_memory_is_not_in_use_by_queued_work) {
    auto fill = [](acre::pool_ref pool, acre::stream_ref, size_t bytes) {
        acre::pmr_resource resource(pool);
        std::pmr::vector<unsigned char> host(bytes, 2, &resource);
    };
    CHECK(changed_bytes(device_name, false, fill) == 0);
    CHECK(changed_bytes(device_name, true, fill) == 0);
}

TEST(objects_on_the_host_are_not_in_use_by_queued_work) {
    auto fill = [](acre::pool_ref pool, acre::stream_ref stream, size_t bytes) {
        const unsigned char two = 2;
        auto host = acre::make_host<unsigned char[]>(pool, bytes, stream, two);
    };
    CHECK(changed_bytes(device_name, false, fill) == 0);
    CHECK(changed_bytes(device_name, true, fill) == 0);
}

TEST(objects_outlive_their_stream_and_leak_nothing) {
    acre::device device(device_name);
    acre::pool pool(device);
    const uint64_t ranges = device.stats().ranges, vecs = device.stats().vecs;
    {
        acre::device_buffer buffer;
        acre::unique_ptr<int[]> pointer;
        acre::vec<int> vec(device);
        acre::range range(device, 64 << 20);
        {
            acre::stream stream(device);
            buffer = acre::device_buffer(pool, 1000, stream);
            pointer = acre::make_unique<int[]>(pool, 1000, stream);
            vec.grow(1000, stream);
            vec.set_stream(stream);
            range.commit(0, 2 << 20, stream);
            range.set_stream(stream);
        }
        CHECK(pool.stats().live_blocks == 2);
    }
    CHECK(pool.stats().live_blocks == 0);
    CHECK(device.stats().ranges == ranges && device.stats().vecs == vecs);
}

TEST(containers_leave_a_stream_that_no_longer_exists) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::pool pool(device);
    acre::device_buffer buffer;
    acre::device_vector<int> vector(device);
    {
        acre::stream gone(device);
        buffer = acre::device_buffer(pool, 1000, gone);
        vector = acre::device_vector<int>(device, {1, 2}, gone);
    }
    buffer.set_stream(stream);
    vector.set_stream(stream);
    buffer.resize(100000);
    vector.push_back(3);
    CHECK(buffer.stream() == stream && vector.stream() == stream);
    CHECK(vector.to_host() == std::vector<int>({1, 2, 3}));
}

namespace {
int destroy_calls;
acre_status destroy_result; // of the first call for an object
struct destroy_refused {
    acre_status operator()(acre_vec *, acre::stream_ref) noexcept {
        return destroy_calls++ ? ACRE_OK : destroy_result;
    }
};
/* How often an owner tries to destroy its object if the first try fails. */
int tries_after(acre::device &device, acre_vec *vec, acre_status result) {
    destroy_calls = 0;
    destroy_result = result;
    acre::detail::stream_owner<acre::vec_ref<int>, destroy_refused> owner(vec, {}, device);
    owner.reset();
    return destroy_calls;
}
} // namespace

TEST(owner_of_a_captured_streams_memory_does_not_wait_for_the_device) {
    acre::device device(device_name);
    acre::vec<int> vec(device);
    CHECK(tries_after(device, vec.get(), ACRE_OK) == 1);
    CHECK(tries_after(device, vec.get(), ACRE_E_HANDLE) == 2);
    CHECK(tries_after(device, vec.get(), ACRE_E_CAPTURING) == 1);
}

namespace {
/* The report of a request that fails for lack of memory. */
template <class F> std::string report_of(F request) {
    try {
        request();
    } catch (const acre::out_of_memory &error) {
        return error.report();
    }
    FAIL("no exception");
    return {};
}
} // namespace

TEST(reports_are_those_of_the_request_that_failed) {
    constexpr size_t huge = size_t(1) << 50;
    acre::device device(device_name);
    acre::stream stream(device);
    acre::pool pool(device), small(device);
    small.set_limits(0, 1 << 20);
    acre_plan_options options = {};
    options.device_bytes = options.host_bytes = ACRE_PLAN_AS_NEEDED;
    acre::plan plan(device, options);
    void *blocks[2], *block = pool.allocate(100, stream);
    auto report_is_for = [](const char *bytes, auto request) {
        CHECK(report_of(request).find(bytes) != std::string::npos);
    };
    report_is_for("3145728 bytes", [&] { (void)small.allocate(3 << 20, stream); });
    report_is_for("1125899906842624 bytes", [&] { (void)pool.reallocate(block, huge, stream); });
    report_is_for("3145729 bytes", [&] { (void)small.allocate_zeroed((3 << 20) + 1, stream); });
    report_is_for("1125899906842624 bytes", [&] { pool.allocate_many(huge, 2, stream, blocks); });
    report_is_for("3145730 bytes", [&] { (void)small.allocate((3 << 20) + 2, stream); });
    report_is_for("1125899906842624 bytes", [&] {
        acre::plan_step step = plan.step(stream);
        (void)step.allocate(huge);
    });
    report_is_for("3145732 bytes", [&] { (void)small.allocate((3 << 20) + 4, stream); });
    report_is_for("1125899906842624 bytes", [&] {
        void *p;
        acre::check(acre_alloc(device.get(), huge, nullptr, &p));
    });
    // These calls write no report: that of an earlier request is not theirs.
    CHECK(report_of([&] { acre::memory(device, ACRE_KIND_DEVICE, huge); }).empty());
    CHECK(report_of([&] { pool.reserve(huge); }).empty());
    CHECK(report_of([&] { (void)pool.allocate_spillable(huge, stream); }).empty());
    acre_pool_options too_much = {};
    too_much.initial_bytes = huge;
    CHECK(report_of([&] { acre::pool(device, too_much); }).empty());
    CHECK(report_of([&] { acre::range(device, UINT64_MAX); }).empty());
    pool.deallocate(block, stream);
}

TEST(vector_copies_no_more_than_it_has) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::device_vector<int> vector(device, {1, 2, 3}, stream);
    vector.append({4});
    vector.resize(3);
    int host[4] = {};
    CHECK(vector.try_copy_to(host, 4).status() == ACRE_E_RANGE);
    CHECK_THROWS(acre::call_error, vector.copy_to(host, 4));
    vector.copy_to(host, 3);
    stream.sync();
    CHECK(host[2] == 3 && host[3] == 0);
}

TEST(options_need_no_size) {
    acre_open_options options = {};
    options.soft_devices = 1;
    acre::device device("soft:0", options);
    CHECK(device.info().ordinal == 0);
}

TEST(results_have_values_or_defaults) {
    const acre::result<int> five = 5, none = ACRE_E_LIMIT;
    CHECK(five.value_or(1) == 5 && none.value_or(1) == 1);
    acre::result<bool> no = false;
    CHECK(no && !*no);
}

void without_exceptions(acre_device *device);

TEST(files_without_exceptions_leave_exceptions_to_others) {
    acre::device device(device_name);
    without_exceptions(device.get());
    CHECK_THROWS(acre::out_of_memory, acre::check(ACRE_E_LIMIT));
    CHECK_THROWS(acre::error, acre::pool_ref::default_of(nullptr));
}

std::unique_ptr<std::pmr::memory_resource> resource_without_rtti(acre_pool *pool);
bool is_equal_without_rtti(const std::pmr::memory_resource &a, const std::pmr::memory_resource &b);

TEST(pmr_resources_of_files_with_and_without_rtti_are_equal) {
    acre::device device(device_name);
    acre::pool one(device, ACRE_KIND_PINNED), two(device, ACRE_KIND_PINNED);
    acre::pmr_resource with(one), other(two);
    std::unique_ptr<std::pmr::memory_resource> without = resource_without_rtti(one.get());
    CHECK(with.is_equal(*without) && without->is_equal(with) && !other.is_equal(*without));
    CHECK(is_equal_without_rtti(with, *without) && is_equal_without_rtti(*without, with));
    CHECK(!without->is_equal(other) && !without->is_equal(*std::pmr::new_delete_resource()));
    CHECK(!is_equal_without_rtti(*std::pmr::new_delete_resource(), *without));
}

TEST(pmr_try_create_without_host_memory_throws_nothing) {
    acre::device device(device_name);
    acre::pool pool(device, ACRE_KIND_PINNED);
    is_out_of_host_memory = true;
    acre_status status = acre::pmr_resource::try_create(pool).status();
    bool threw = false;
    try {
        acre::pmr_resource resource(pool);
    } catch (const std::bad_alloc &) {
        threw = true;
    }
    is_out_of_host_memory = false;
    CHECK(status == ACRE_E_HOST_MEMORY && threw);
    CHECK(acre::pmr_resource::try_create(pool));
}

TEST(pmr_resource_that_outlives_its_device_destroys_no_other_stream) {
    std::optional<acre::pmr_resource> resource;
    {
        acre::device device(device_name);
        resource.emplace(device);
        resource->deallocate(resource->allocate(10), 10);
    }
    acre::device device(device_name);
    std::vector<acre::stream> streams;
    for (int i = 0; i < 64; i++) // one of them may have the handle of the resource's stream
        streams.emplace_back(device);
    resource.reset();
    for (const acre::stream &stream : streams)
        CHECK(stream.query());
}

namespace {
struct throws_in_constructor {
    throws_in_constructor() {
        throw 1;
    }
};
/* A kernel of the soft device. */
void make_object_that_throws(void *arguments) {
    acre_heap_handle heap = *static_cast<acre_heap_handle *>(arguments);
    try {
        (void)acre::make_heap<throws_in_constructor>(heap);
    } catch (int) {
    }
}
} // namespace

TEST(heap_object_whose_constructor_throws_leaves_no_block) {
    if (std::strcmp(device_name, "soft") != 0)
        return; // constructors in kernels of a GPU cannot throw
    acre::device device(device_name);
    acre::heap heap(device);
    acre_heap_handle handle = heap.handle();
    const uint32_t one[3] = {1, 1, 1};
    acre::check(
        acre_soft_launch(device.get(), nullptr, make_object_that_throws, one, one, 0, &handle));
    device.sync();
    int blocks = 0;
    heap.walk([&](void *, uint64_t) { blocks++; });
    CHECK(blocks == 0);
}

void check(acre_status) {
    FAIL("the headers call a function of the program");
}

int main() {
    return cpp_test::run();
}

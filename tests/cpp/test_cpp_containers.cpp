/* device_buffer, device_vector, unique_ptr and host_ptr. */
#include "cpp_cases.hpp"

#include <acre_soft.h>

#include <array>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "support/rounds.h"

static_assert(!std::is_copy_constructible_v<acre::device_buffer>, "a copy needs a stream");
static_assert(std::is_nothrow_move_constructible_v<acre::device_buffer>, "moves do not throw");
static_assert(std::is_nothrow_move_assignable_v<acre::device_vector<int>>, "moves do not throw");
static_assert(!std::is_copy_constructible_v<acre::device_vector<int>>, "a copy needs a stream");

namespace {

struct first_base {
    int a;
};
struct second_base {
    int b;
};
struct two_bases : first_base, second_base {};

/* The conversions of owning pointers. */
template <class From, class To>
constexpr bool converts = std::is_convertible_v<From, To> || std::is_constructible_v<To, From> ||
                          std::is_assignable_v<To &, From>;
static_assert(!converts<acre::host_ptr<int>, acre::unique_ptr<int>>,
              "the destructor would not run");
static_assert(!converts<acre::host_ptr<int[]>, acre::unique_ptr<int[]>>, "nor those of an array");
static_assert(!converts<acre::unique_ptr<int>, acre::host_ptr<int>>, "how many objects are there?");
static_assert(!converts<acre::unique_ptr<int[]>, acre::host_ptr<int[]>>, "how many objects?");
static_assert(!converts<acre::unique_ptr<two_bases>, acre::unique_ptr<second_base>>,
              "a base may have another address than the block");
static_assert(!converts<acre::host_ptr<two_bases>, acre::host_ptr<second_base>>, "likewise");
static_assert(!converts<acre::unique_ptr<const int[]>, acre::unique_ptr<int[]>>, "const stays");
static_assert(converts<acre::unique_ptr<int>, acre::unique_ptr<const int>>, "const may be added");
static_assert(converts<acre::unique_ptr<int[]>, acre::unique_ptr<const int[]>>, "to arrays, too");
static_assert(converts<acre::host_ptr<int[]>, acre::host_ptr<const int[]>>, "and to objects");
static_assert(converts<acre::unique_ptr<int>, acre::unique_ptr<void>>, "without elements");

struct fixture {
    acre::device device;
    acre::stream stream;
    acre::pool pool;
    explicit fixture(const char *name) : device(name), stream(device), pool(device) {
    }
    uint64_t live() const {
        return pool.stats().live_blocks;
    }
    std::vector<char> read(const acre::device_buffer &buffer) const {
        return cpp_read(device, static_cast<const char *>(buffer.data()), buffer.size(), stream);
    }
};

/* An object that counts how many of it exist, and whose n-th construction throws. */
struct counted {
    static int alive, until_throw;
    int value;
    explicit counted(int v = 3) : value(v) {
        if (until_throw-- == 0)
            throw std::runtime_error("constructor");
        alive++;
    }
    counted(const counted &) = delete;
    ~counted() {
        alive--;
    }
};
int counted::alive, counted::until_throw = -1;

struct alignas(1024) wide {
    char bytes[1024];
};

} // namespace

TEST(buffer_copies_resizes_and_frees_itself) {
    fixture t(device_name);
    const char text[] = "contents";
    {
        acre::device_buffer empty, none(t.pool, 0, t.stream);
        CHECK(empty.empty() && !empty.data() && !none.data() && t.live() == 0);
        acre::device_buffer buffer(t.pool, text, sizeof text, t.stream);
        CHECK(buffer.size() == sizeof text && buffer.capacity() == sizeof text && t.live() == 1);
        CHECK(buffer.stream() == acre::stream_ref(t.stream) && buffer.pool() == t.pool);
        buffer.resize(4);
        CHECK(buffer.size() == 4 && buffer.capacity() == sizeof text);
        buffer.reserve(1 << 20);
        CHECK(buffer.size() == 4 && buffer.capacity() == 1 << 20);
        CHECK(std::memcmp(t.read(buffer).data(), text, 4) == 0);
        const void *at = buffer.data();
        buffer.resize(1 << 20);
        CHECK(buffer.data() == at && buffer.size() == 1 << 20);
        buffer.resize(5);
        buffer.shrink_to_fit();
        CHECK(buffer.capacity() == 5 && std::memcmp(t.read(buffer).data(), text, 5) == 0);
        acre::device_buffer copy(buffer, t.stream), nothing(empty, t.stream);
        CHECK(copy.data() != buffer.data() && t.read(copy) == t.read(buffer) && t.live() == 2);
        buffer.resize(0);
        buffer.shrink_to_fit();
        CHECK(!buffer.data() && t.live() == 1);
        buffer.resize(10);
        CHECK(buffer.data() && t.live() == 2);
    }
    CHECK(t.live() == 0);
    acre::device_buffer from_default(t.device, text, sizeof text, t.stream);
    CHECK(from_default.pool() == acre::pool_ref::default_of(t.device));
    CHECK(std::memcmp(t.read(from_default).data(), text, sizeof text) == 0);
}

TEST(buffer_moves_and_self_moves) {
    fixture t(device_name);
    acre::device_buffer one(t.pool, 100, t.stream), two(t.pool, 200, t.stream);
    acre::device_buffer three(std::move(one));
    CHECK(one.empty() && one.capacity() == 0 && !one.data() && three.size() == 100);
    acre::device_buffer &same = three;
    three = std::move(same);
    CHECK(three.size() == 100 && three.data() && t.live() == 2);
    two = std::move(three);
    CHECK(two.size() == 100 && t.live() == 1);
    one = std::move(two); // into a moved-from buffer
    CHECK(one.size() == 100 && t.live() == 1);
    one.resize(300);
    void *p = one.release();
    CHECK(one.empty() && t.live() == 1);
    t.pool.deallocate(p, t.stream);
    one.resize(1); // its pool is still known
    CHECK(t.live() == 1);
}

TEST(buffer_failures_change_nothing) {
    fixture t(device_name);
    acre::device_buffer buffer(t.pool, 1000, t.stream);
    t.device.fill(buffer.data(), 8, 1000, t.stream);
    void *at = buffer.data();
    CHECK_THROWS(std::bad_alloc, buffer.resize(size_t(1) << 60));
    CHECK(buffer.try_reserve(size_t(1) << 60).status() == ACRE_E_DEVICE_MEMORY);
    CHECK(buffer.data() == at && buffer.size() == 1000 && buffer.capacity() == 1000);
    CHECK(t.read(buffer)[999] == 8);
    CHECK_THROWS(acre::call_error, acre::device_buffer(t.pool, nullptr, 10, t.stream));
    CHECK(t.live() == 1); // the block of the failed copy was freed
    CHECK_THROWS(acre::call_error, acre::device_buffer(acre::pool_ref(), 10, t.stream));
    CHECK_THROWS(acre::call_error, acre::device_buffer().resize(1));
}

TEST(buffer_new_stream_waits_for_work_of_the_old_one) {
    fixture t(device_name);
    acre::stream other(t.device, ACRE_STREAM_NON_BLOCKING);
    acre::stream first(t.device, ACRE_STREAM_NON_BLOCKING);
    bool can_lag = std::strcmp(device_name, "soft") == 0;
    acre::device_buffer buffer(t.pool, 1 << 20, first);
    if (can_lag)
        acre::check(acre_soft_set_lag(t.device.get(), 1000, 0));
    t.device.fill(buffer.data(), 1, 1 << 20, first); // in flight on the soft device
    void *at = buffer.data();
    buffer.set_stream(other);
    CHECK(buffer.stream() == acre::stream_ref(other));
    buffer.reset(); // frees in the order of `other`, which does not wait for `first`
    acre::device_buffer next(t.pool, 1 << 20, other);
    bool is_reused = next.data() == at;
    if (can_lag) {
        acre::check(acre_soft_set_lag(t.device.get(), 0, 0));
        CHECK(!is_reused);
    }
    first.sync();
    next.record_use(first);
}

TEST(vector_constructs_appends_and_reads_back) {
    fixture t(device_name);
    acre::device_vector<int> list(t.device, {1, 2, 3}, t.stream);
    std::vector<int> more = {4, 5};
    std::array<int, 2> last = {{6, 7}};
    int array[] = {8, 9};
    const int *at = list.data();
    list.append(more);
    list.append(last);
    list.append(array);
    list.append({10, 11});
    list.push_back(12);
    list.append(list.data(), 2); // its own elements
    CHECK(list.data() == at && list.size() == 14);
    std::vector<int> expected(12);
    std::iota(expected.begin(), expected.end(), 1);
    expected.push_back(1);
    expected.push_back(2);
    CHECK(list.to_host() == expected);
    CHECK(list.end() - list.begin() == 14 && list.ref().size() == 14);
    acre::device_vector<int> copy(t.device, list.data(), list.size(), t.stream);
    CHECK(copy.to_host() == expected);
    acre::device_vector<int> from(t.device, more, t.stream);
    CHECK(from.to_host() == more);
    from.assign(last);
    CHECK(from.to_host() == std::vector<int>({6, 7}));
    int one = 0;
    from.copy_to(&one, 1);
    CHECK(one == 6);
    acre::device_vector<double> none(t.device, size_t(5), t.stream), empty(t.device);
    CHECK(none.size() == 5 && empty.empty() && empty.to_host().empty());
}

TEST(vector_assigned_from_itself_keeps_its_elements) {
    fixture t(device_name);
    const std::vector<int> host = {1, 2, 3, 4};
    acre::device_vector<int> vector(t.device, host, t.stream);
    vector.assign(vector);
    vector.assign(vector.ref());
    vector.assign(vector.data(), vector.size());
    CHECK(vector.to_host() == host);
    for (size_t at = 0; at < 2; at++) { // overlaps its new place
        CHECK(vector.try_assign(vector.data() + at, 3).status() == ACRE_E_OVERLAP);
        CHECK_THROWS(acre::call_error, vector.assign(vector.data() + at, 3));
    }
    CHECK(vector.to_host() == host);
    vector.assign(vector.data() + 2, 2);
    CHECK(vector.to_host() == std::vector<int>({3, 4}));
    CHECK(vector.try_assign(nullptr, 0) && vector.empty());
}

TEST(vector_keeps_its_address_while_it_grows) {
    fixture t(device_name);
    acre::device_vector<int> vector(t.device, t.stream);
    std::vector<int> part(1 << 16);
    const int *at = vector.data();
    for (int i = 0; i < ROUNDS(256, 64); i++) {
        part.assign(part.size(), i);
        vector.append(part);
    }
    CHECK(vector.data() == at && vector.ref().info().copied_bytes == 0);
    std::vector<int> host = vector.to_host();
    for (size_t i = 0; i < host.size(); i += 1 << 15)
        CHECK(host[i] == int(i >> 16));
    vector.resize(10);
    vector.shrink_to_fit();
    CHECK(vector.size() == 10 && vector.data() == at && vector.to_host()[9] == 0);
    vector.clear();
    vector.reserve(100);
    CHECK(vector.empty() && vector.capacity() >= 100);
}

TEST(vector_failures_change_nothing) {
    fixture t(device_name);
    acre_vec_options options = {};
    options.limit_bytes = 4 << 20;
    acre::device_vector<int> vector(t.device, t.stream, options);
    vector.append({1, 2});
    std::vector<int> large(2 << 20);
    CHECK_THROWS(acre::out_of_memory, vector.append(large));
    CHECK(!vector.try_resize(2 << 20) && vector.try_append(nullptr, 1).status() == ACRE_E_NULL);
    CHECK(vector.to_host() == std::vector<int>({1, 2}));
    CHECK_THROWS(acre::call_error, vector.copy_to(large.data(), 2 << 20)); // more than it has
    uint64_t vecs = t.device.stats().vecs;
    CHECK_THROWS(acre::out_of_memory, acre::device_vector<int>(t.device, SIZE_MAX / 8, t.stream));
    CHECK_THROWS(acre::error, acre::device_vector<int>(t.device, nullptr, 1, t.stream));
    CHECK(t.device.stats().vecs == vecs); // a failed constructor leaves no vec
}

TEST(vector_moves_and_changes_its_stream) {
    fixture t(device_name);
    acre::stream other(t.device, ACRE_STREAM_NON_BLOCKING);
    acre::device_vector<int> one(t.device, {1}, t.stream), two(t.device, {2, 3}, t.stream);
    acre::device_vector<int> three(std::move(one));
    CHECK(one.empty() && !one.data() && three.size() == 1);
    acre::device_vector<int> &same = three;
    three = std::move(same);
    CHECK(three.to_host() == std::vector<int>({1}));
    three = std::move(two);
    CHECK(three.to_host() == std::vector<int>({2, 3}));
    one = std::move(three);
    one.set_stream(other);
    CHECK(one.stream() == acre::stream_ref(other));
    one.push_back(4);
    one.record_use(t.stream);
    CHECK(one.to_host() == std::vector<int>({2, 3, 4}) && one.device() == t.device);
    acre::device_vector<int> four(t.device);
    four.swap(one);
    CHECK(one.empty() && four.size() == 3);
}

TEST(unique_ptr_frees_in_stream_order) {
    fixture t(device_name);
    {
        acre::unique_ptr<float[]> array = acre::make_unique<float[]>(t.pool, 1000, t.stream);
        acre::unique_ptr<wide> one = acre::make_unique<wide>(t.pool, t.stream);
        CHECK(array && one && t.live() == 2);
        CHECK(reinterpret_cast<uintptr_t>(one.get()) % 1024 == 0);
        t.device.fill(array.get(), 0, 4000, t.stream);
        acre::unique_ptr<float[]> moved = std::move(array);
        CHECK(!array && moved && t.live() == 2);
        moved.reset();
        CHECK(t.live() == 1);
        CHECK(one.get_deleter().stream() == acre::stream_ref(t.stream));
        one.get_deleter().set_stream(nullptr);
        acre::unique_ptr<const int[]> fixed = acre::make_unique<int[]>(t.pool, 10, t.stream);
        acre::unique_ptr<void> bytes = acre::make_unique<int>(t.pool, t.stream);
        CHECK(fixed && bytes && t.live() == 3);
    }
    CHECK(t.live() == 0);
    CHECK_THROWS(std::bad_alloc, (void)acre::make_unique<int[]>(t.pool, SIZE_MAX / 2, t.stream));
    CHECK(!acre::try_make_unique<int[]>(t.pool, SIZE_MAX / 2, t.stream));
    CHECK(!acre::make_unique<int[]>(t.pool, 0, t.stream));
}

TEST(host_ptr_constructs_and_destroys) {
    fixture t(device_name);
    for (acre_kind kind : {ACRE_KIND_PINNED, ACRE_KIND_MAPPED, ACRE_KIND_MANAGED}) {
        acre::pool pool(t.device, kind);
        {
            acre::host_ptr<counted> one = acre::make_host<counted>(pool, t.stream, 5);
            acre::host_ptr<counted[]> many = acre::make_host<counted[]>(pool, 10, t.stream, 7);
            CHECK(one->value == 5 && many[9].value == 7 && counted::alive == 11);
            CHECK(many.get_deleter().size() == 10 && pool.stats().live_blocks == 2);
            acre::host_ptr<counted[]> moved = std::move(many);
            CHECK(counted::alive == 11 && moved[0].value == 7);
            acre::host_ptr<const counted[]> fixed = std::move(moved);
            acre::host_ptr<const counted> made = acre::make_host<const counted>(pool, t.stream, 6);
            auto array = acre::make_host<const counted[]>(pool, 2, t.stream, 8);
            CHECK(counted::alive == 14 && fixed[9].value == 7 && made->value == 6);
            CHECK(fixed.get_deleter().size() == 10 && array[1].value == 8);
        }
        CHECK(counted::alive == 0 && pool.stats().live_blocks == 0);
        counted::until_throw = 4;
        CHECK_THROWS(std::runtime_error, (void)acre::make_host<counted[]>(pool, 10, t.stream));
        counted::until_throw = 0;
        CHECK_THROWS(std::runtime_error, (void)acre::make_host<counted>(pool, t.stream));
        counted::until_throw = -1;
        CHECK(counted::alive == 0 && pool.stats().live_blocks == 0);
        CHECK(!acre::make_host<counted[]>(pool, 0, t.stream));
    }
    try {
        (void)acre::make_host<counted>(t.pool, t.stream);
        FAIL("device memory is refused");
    } catch (const acre::call_error &e) {
        CHECK(e.status() == ACRE_E_KIND && std::strstr(e.detail(), "pinned, mapped or managed"));
    }
    CHECK(t.live() == 0);
}

TEST(device_vector_without_memory_is_an_empty_container) {
    acre::device device(device_name);
    acre::stream stream(device), other(device);
    acre::device_vector<int> from(device, {1, 2, 3}, stream), to = std::move(from);
    acre::device_vector<int> none;
    for (acre::device_vector<int> *empty : {&from, &none}) {
        empty->clear();
        empty->resize(0);
        empty->set_stream(other);
        CHECK(empty->empty() && empty->size() == 0);
        CHECK_THROWS(acre::call_error, empty->resize(1));
    }
    to.assign({4, 5});
    CHECK(to.to_host() == std::vector<int>({4, 5}));
    to.assign({});
    CHECK(to.empty());
}

int main() {
    return cpp_test::run();
}

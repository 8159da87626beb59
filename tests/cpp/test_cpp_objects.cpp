/* Errors, devices, streams, events and single allocations in C++. */
#include "cpp_cases.hpp"

#include <acre/cpp/heap.hpp>
#include <acre_soft.h>

#include <type_traits>
#include <unistd.h>
#include <utility>

static_assert(!std::is_copy_constructible_v<acre::device>, "owners move");
static_assert(!std::is_copy_assignable_v<acre::stream>, "owners move");
static_assert(!std::is_copy_constructible_v<acre::event>, "owners move");
static_assert(!std::is_copy_constructible_v<acre::pool>, "owners move");
static_assert(!std::is_copy_constructible_v<acre::memory>, "owners move");
static_assert(std::is_nothrow_move_constructible_v<acre::device>, "moves do not throw");
static_assert(std::is_nothrow_move_assignable_v<acre::event>, "moves do not throw");
static_assert(std::is_trivially_copyable_v<acre::pool_ref>, "references are handles");
static_assert(sizeof(acre::pool) == sizeof(acre_pool *), "an owner is its handle");
static_assert(std::is_convertible_v<acre::pool &, acre::pool_ref>, "owners convert to references");
static_assert(std::is_convertible_v<acre::event &, acre::event_ref>, "owners convert");

/* A function that takes a reference to change it cannot get an owner, whose handle would be lost.
 */
template <class Owner, class Ref> constexpr bool converts_safely() {
    return std::is_convertible_v<Owner &, Ref> && std::is_convertible_v<const Owner &, Ref> &&
           !std::is_convertible_v<Owner &, Ref &> && !std::is_assignable_v<Owner &, Ref> &&
           !std::is_convertible_v<Owner, Ref> && !std::is_constructible_v<Ref, Owner>;
}
static_assert(converts_safely<acre::device, acre::device_ref>());
static_assert(converts_safely<acre::stream, acre::stream_ref>());
static_assert(converts_safely<acre::event, acre::event_ref>());
static_assert(converts_safely<acre::pool, acre::pool_ref>());
static_assert(converts_safely<acre::plan, acre::plan_ref>());
static_assert(converts_safely<acre::heap, acre::heap_ref>());
static_assert(converts_safely<acre::share, acre::share_ref>());
static_assert(converts_safely<acre::imported, acre::import_ref>());
static_assert(converts_safely<acre::vec<int>, acre::vec_ref<int>>());
static_assert(converts_safely<acre::range, acre::range_ref>());
static_assert(converts_safely<acre::range_budget, acre::range_budget_ref>());

namespace {
/* Types that refer to themselves. */
struct node {
    int value;
    acre::vec_ref<node> children;
};

/* Members that are assigned later. */
struct members {
    acre::stream stream;
    acre::event event;
    acre::pool pool;
    acre::plan plan;
    acre::heap heap;
    acre::share share;
    acre::imported imported;
    acre::range_budget budget;
    acre::range range;
    acre::vec<node> nodes;
    acre::device_vector<int> vector;
};

struct closing_order {
    std::vector<int> *order;
    int number;
    ~closing_order() {
        order->push_back(number);
    }
};

uint32_t opens(acre::device_ref device) {
    return device.info().open_count;
}
} // namespace

TEST(error_by_type_is_caught_as_each_base) {
    acre::device device(device_name);
    acre::pool pool(device);
    CHECK_THROWS(acre::out_of_memory, (void)pool.allocate(size_t(1) << 60, nullptr));
    CHECK_THROWS(std::bad_alloc, (void)pool.allocate(size_t(1) << 60, nullptr));
    CHECK_THROWS(acre::error, (void)pool.allocate(size_t(1) << 60, nullptr));
    CHECK_THROWS(std::exception, (void)pool.allocate(size_t(1) << 60, nullptr));
    int local = 0;
    CHECK_THROWS(acre::call_error, pool.deallocate(&local, nullptr));
    CHECK_THROWS(acre::error, pool.deallocate(&local, nullptr));
    CHECK_THROWS(std::exception, pool.deallocate(&local, nullptr));
    try {
        pool.deallocate(&local, nullptr);
    } catch (const std::bad_alloc &) {
        FAIL("an invalid pointer is no lack of memory");
    } catch (const acre::error &e) {
        CHECK(e.status() == ACRE_E_POINTER);
    }
}

TEST(error_lack_of_memory_addresses_and_limits_is_out_of_memory) {
    for (acre_status status :
         {ACRE_E_HOST_MEMORY, ACRE_E_DEVICE_MEMORY, ACRE_E_ADDRESS_SPACE, ACRE_E_LIMIT})
        CHECK_THROWS(acre::out_of_memory, acre::check(status));
    for (acre_status status : {ACRE_E_INVALID, ACRE_E_POINTER, ACRE_E_BUSY, ACRE_E_DEVICE_LOST})
        CHECK_THROWS(acre::call_error, acre::check(status));
    acre::device device(device_name);
    try {
        acre::range range(device, UINT64_MAX);
        FAIL("no device has that many addresses");
    } catch (const acre::out_of_memory &e) {
        CHECK(e.status() == ACRE_E_ADDRESS_SPACE);
    }
}

TEST(error_text_has_status_detail_and_report) {
    acre::device device(device_name);
    acre::pool pool(device);
    try {
        (void)pool.allocate(size_t(1) << 60, nullptr);
        FAIL("it throws");
    } catch (const acre::out_of_memory &e) {
        std::string what = e.what(), name = acre_status_name(e.status());
        CHECK(what.compare(0, name.size() + 2, name + ": ") == 0);
        CHECK(what == name + ": " + e.detail());
        CHECK(std::string(e.detail()).find("acre_pool_alloc") != std::string::npos);
        const std::exception &as_standard = static_cast<const std::bad_alloc &>(e);
        CHECK(what == as_standard.what());
        acre::out_of_memory copy = e;
        CHECK(what == copy.what() && copy.status() == e.status());
        CHECK(!e.report().empty());
        CHECK(e.report(ACRE_OOM_JSON).find("acre-oom/1") != std::string::npos);
    }
}

TEST(error_result_holds_value_or_status) {
    acre::result<int> good = 7, bad = ACRE_E_LIMIT;
    CHECK(good && *good == 7 && good.value() == 7 && good.status() == ACRE_OK);
    CHECK(!bad && bad.status() == ACRE_E_LIMIT);
    CHECK_THROWS(acre::out_of_memory, (void)bad.value());
    CHECK(std::move(bad).value_or(3) == 3);
    acre::result<void> fine = ACRE_OK, wrong = ACRE_E_BUSY;
    fine.value();
    CHECK(fine && !wrong);
    CHECK_THROWS(acre::call_error, wrong.value());
}

TEST(device_moves_keep_one_open) {
    acre::device first(device_name);
    uint32_t before = opens(first);
    {
        acre::device second(device_name);
        CHECK(opens(first) == before + 1);
        acre::device third(std::move(second));
        CHECK(!second && third && opens(first) == before + 1);
        acre::device &same = third;
        third = std::move(same);
        CHECK(third && opens(first) == before + 1);
        second = std::move(third);
        CHECK(second && !third);
        second.reset();
        CHECK(!second && opens(first) == before);
        acre::device fourth(device_name);
        acre_device *handle = fourth.release();
        CHECK(!fourth && opens(first) == before + 1);
        acre::device::adopt(handle);
        CHECK(opens(first) == before);
        acre::device fifth(device_name), sixth(device_name);
        CHECK(opens(first) == before + 2);
        fifth = std::move(sixth); // closes what it had
        CHECK(opens(first) == before + 1);
    }
    CHECK(opens(first) == before);
}

TEST(device_wrong_name_throws_and_try_returns) {
    CHECK_THROWS(acre::call_error, acre::device("nonsense"));
    acre::result<acre::device> none = acre::device::try_open("nonsense");
    CHECK(!none && none.status() != ACRE_OK);
}

TEST(device_copies_and_fills_any_memory) {
    acre::device device(device_name);
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    acre::memory block(device, ACRE_KIND_DEVICE, 4096);
    std::vector<unsigned char> host(4096, 9);
    device.fill(block.data(), 5, 4096, stream);
    device.copy(host.data(), block.data(), 4096, stream);
    stream.sync();
    CHECK(host[0] == 5 && host[4095] == 5);
    host.assign(4096, 6);
    device.copy_sync(block.data(), host.data(), 4096);
    device.sync();
    CHECK(cpp_read(device, static_cast<unsigned char *>(block.data()), 4096, stream)[17] == 6);
    CHECK_THROWS(acre::call_error, device.copy(block.data(), host.data(), 8192, stream));
    CHECK(device.try_copy(block.data(), nullptr, 1, stream).status() == ACRE_E_NULL);
    CHECK(device.stats().mem_blocks == 1);
    device.trim();
}

TEST(device_limits) {
    acre::device device(device_name);
    device.set_limits(8 << 20, 1 << 20);
    CHECK(device.stats().limit_bytes == 8 << 20 && device.stats().margin_bytes == 1 << 20);
    CHECK_THROWS(acre::out_of_memory, acre::memory(device, ACRE_KIND_DEVICE, 9 << 20));
    acre::memory block(device, ACRE_KIND_DEVICE, 7 << 20);
    CHECK(device.stats().held_bytes >= block.size());
    device.set_limits(0);
    acre::memory more(device, ACRE_KIND_DEVICE, 9 << 20);
}

TEST(device_copies_rows) {
    acre::device device(device_name);
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    acre::memory block(device, ACRE_KIND_DEVICE, 64);
    const char host[] = "abc-def-ghi-";
    device.fill(block.data(), '.', 64, stream);
    device.copy_2d(block.data(), 16, host, 4, 3, 3, stream);
    std::vector<char> rows = cpp_read(device, static_cast<char *>(block.data()), 64, stream);
    CHECK(std::string(rows.data(), 5) == "abc.." && std::string(&rows[32], 4) == "ghi.");
    CHECK(device.try_copy_2d(block.data(), 2, host, 4, 3, 3, stream).status() == ACRE_E_INVALID);
    CHECK_THROWS(acre::call_error, device.copy_2d(nullptr, 16, host, 4, 3, 3, stream));
}

TEST(snapshot_writes_a_file) {
    acre::device device(device_name);
    acre::memory block(device, ACRE_KIND_DEVICE, 4096);
    char path[] = "/tmp/acre-cpp-XXXXXX", start[200] = "";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    acre::snapshot(path, device);
    std::FILE *file = std::fopen(path, "r"); // the snapshot has replaced the empty file
    std::remove(path);
    CHECK(file);
    size_t got = std::fread(start, 1, sizeof start - 1, file);
    std::fclose(file);
    CHECK(got > 20 && std::strstr(start, "acre-snapshot/1"));
    CHECK(acre::try_snapshot("/nowhere/at/all").status() == ACRE_E_SYSTEM);
    acre::trace_flush(); // without a trace
}

TEST(stream_and_event_move_and_order_work) {
    acre::device device(device_name);
    uint64_t streams = device.stats().streams_live, events = device.stats().events_live;
    {
        acre::stream one(device), two(device, ACRE_STREAM_NON_BLOCKING);
        CHECK(device.stats().streams_live == streams + 2);
        acre::event begin(device, ACRE_EVENT_TIMING), end(device, ACRE_EVENT_TIMING);
        CHECK(begin.query());
        begin.record(one);
        two.wait(begin);
        device.wait(two, begin);
        end.record(two);
        end.sync();
        CHECK(begin.query() && end.query());
        CHECK(end.elapsed_since(begin) >= 0);
        CHECK(begin.device() == device && one.device() == device);
        one.sync();
        CHECK(one.query() && device.query(two));
        acre::event plain(device);
        plain.record(one);
        plain.sync();
        CHECK_THROWS(acre::call_error, (void)plain.elapsed_since(begin));
        CHECK(!plain.try_elapsed_since(begin));

        acre::event moved(std::move(plain));
        CHECK(!plain.get() && moved.get());
        acre::event &same = moved;
        moved = std::move(same);
        CHECK(moved.get());
        moved = std::move(end);
        CHECK(device.stats().events_live == events + 2); // the one it had is gone

        acre::stream taken(std::move(one));
        CHECK(!one.get() && taken.get());
        acre::stream &same_stream = taken;
        taken = std::move(same_stream);
        CHECK(taken.get());
        taken = std::move(two);
        CHECK(device.stats().streams_live == streams + 1);
        acre::stream again = acre::stream::adopt(device, taken.release());
        acre::event back = acre::event::adopt(device, moved.release());
        CHECK(!taken.get() && !moved.get() && again.query() && back.query());
    }
    CHECK(device.stats().streams_live == streams && device.stats().events_live == events);
}

TEST(event_unfinished_work_query_is_false) {
    acre::device device(device_name);
    acre::event event(device);
    CHECK(acre::event_ref(event) != acre::event_ref());
    CHECK(acre::detail::is_done(ACRE_E_DEVICE_LOST).status() == ACRE_E_DEVICE_LOST);
    if (std::strcmp(device_name, "soft") != 0)
        return; // only the soft device can be made to lag
    acre::stream stream(device);
    acre::memory block(device, ACRE_KIND_DEVICE, 4096);
    acre::check(acre_soft_set_lag(device.get(), 1000, 0));
    device.fill(block.data(), 1, 4096, stream);
    event.record(stream);
    bool event_done = event.query(), stream_done = stream.query();
    bool by_device = device.query(stream);
    acre::check(acre_soft_set_lag(device.get(), 0, 0));
    CHECK(!event_done && !stream_done && !by_device);
    event.sync();
    CHECK(event.query() && stream.query());
}

TEST(memory_every_kind_frees_itself) {
    acre::device device(device_name);
    for (acre_kind kind :
         {ACRE_KIND_DEVICE, ACRE_KIND_PINNED, ACRE_KIND_MAPPED, ACRE_KIND_MANAGED}) {
        acre::memory block(device, kind, 3 << 20);
        CHECK(block && block.size() == 3 << 20 && device.stats().mem_blocks == 1);
        CHECK(acre::query_memory(device, block.data()).kind == kind);
        CHECK(block.device_pointer() != nullptr);
        if (kind != ACRE_KIND_DEVICE)
            std::memset(block.data(), 1, block.size());
        acre::memory other(std::move(block));
        CHECK(!block && block.size() == 0 && other.size() == 3 << 20);
        acre::memory &same = other;
        other = std::move(same);
        CHECK(other && device.stats().mem_blocks == 1);
        other = acre::memory(device, kind, 256);
        CHECK(other.size() == 256 && device.stats().mem_blocks == 1);
        void *p = other.release();
        CHECK(!other && device.stats().mem_blocks == 1);
        CHECK(acre::memory::adopt(device, p, 256).size() == 256); // freed at once
        CHECK(device.stats().mem_blocks == 0);
    }
    CHECK(device.stats().mem_blocks == 0);
    acre::memory none;
    CHECK(!none && none.size() == 0);
}

TEST(memory_resize_keeps_contents_and_failure_changes_nothing) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::memory block(device, ACRE_KIND_DEVICE, 4 << 20);
    device.fill(block.data(), 3, block.size(), stream);
    block.resize(8 << 20, stream);
    CHECK(block.size() == 8 << 20);
    CHECK(cpp_read(device, static_cast<unsigned char *>(block.data()), 4 << 20, stream)[99] == 3);
    void *before = block.data();
    CHECK_THROWS(std::bad_alloc, block.resize(size_t(1) << 60, stream));
    CHECK(block.data() == before && block.size() == 8 << 20);
    acre::memory pinned(device, ACRE_KIND_PINNED, 4096);
    CHECK_THROWS(acre::call_error, pinned.resize(8192, stream));
    CHECK(pinned.size() == 4096);
    acre::memory managed(device, ACRE_KIND_MANAGED, 1 << 20);
    managed.prefetch(ACRE_PLACE_HOST, stream);
    managed.attach(ACRE_ATTACH_GLOBAL, stream);
    CHECK(!managed.try_attach(77, stream));
    managed.advise(ACRE_ADVICE_READ_MOSTLY, ACRE_PLACE_DEVICE);
    CHECK(!pinned.try_prefetch(ACRE_PLACE_HOST, stream));
}

TEST(registration_ends_with_its_scope) {
    acre::device device(device_name);
    std::vector<char> host(1 << 20);
    {
        acre::registration pinned(device, host.data(), host.size());
        CHECK(acre::query_memory(device, host.data()).is_registered);
        CHECK(!acre::registration::try_create(device, host.data(), host.size()));
        acre::registration moved(std::move(pinned));
        CHECK(device.stats().mem_registered == 1);
    }
    CHECK(device.stats().mem_registered == 0);
}

TEST(owners_compare_as_their_handles) {
    acre::device device(device_name), same(device_name);
    acre::stream stream(device), other(device);
    acre::event event(device);
    acre::pool pool(device);
    acre::vec<int> vec(device);
    CHECK(stream == stream && stream != other && stream == acre::stream_ref(stream));
    CHECK(event == event && event == acre::event_ref(event) && device == same);
    CHECK(pool == pool && pool == acre::pool_ref(pool) && acre::pool_ref(pool) == pool);
    CHECK(vec == vec && vec == vec.ref() && stream.get() == acre::stream_ref(stream).get());
}

TEST(owners_are_empty_by_default_and_assigned_later) {
    members m;
    CHECK(!m.pool && !m.plan && !m.heap && !m.share && !m.imported && !m.budget && !m.range);
    CHECK(!m.nodes && m.nodes.empty() && m.vector.empty() && !m.vector.data());
    CHECK(!m.stream.get() && !m.event.get() && m.pool == acre::pool());
    CHECK(m.pool.try_allocate(1, nullptr).status() == ACRE_E_NULL);
    CHECK(!m.vector.try_resize(1) && !m.stream.try_sync() && !m.nodes.try_grow(1, nullptr));
    acre::device device(device_name);
    m.pool = acre::pool(device);
    m.stream = acre::stream(device);
    m.nodes = acre::vec<node>(device);
    m.vector = acre::device_vector<int>(device, {1, 2}, m.stream);
    m.nodes.append(std::vector<node>(3).data(), 3, m.stream);
    CHECK(m.pool.stats().live_blocks == 0 && m.vector.to_host()[1] == 2 && m.nodes.size() == 3);
    m = members(); // before the device closes
}

TEST(objects_are_destroyed_in_reverse_order) {
    // The device is declared first and closed last: no object outlives it.
    std::vector<int> order;
    {
        closing_order first = {&order, 1};
        acre::device device(device_name);
        closing_order second = {&order, 2};
        acre::stream stream(device);
        acre::pool pool(device);
        void *p = pool.allocate(1000, stream);
        pool.deallocate(p, stream);
    }
    CHECK(order.size() == 2 && order[0] == 2 && order[1] == 1);
    acre::device again(device_name);
    CHECK(opens(again) == 1 && again.stats().streams_live == 0);
}

int main() {
    return cpp_test::run();
}

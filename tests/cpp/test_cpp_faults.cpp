/* Every driver call fails in turn: objects in C++ are unchanged after a failure, and nothing leaks.
 *
 * A case prepares its objects, and runs one operation while the n-th driver call fails, for n = 1,
 * 2, ... until a run in which none fails. */
#include "cpp_cases.hpp"

#include <functional>

#include "cpp_fault.h"
#include "support/rounds.h"

enum : size_t { MIB = 1 << 20 };

namespace {

struct fixture {
    acre::device device{"soft"};
    acre::stream stream{device, ACRE_STREAM_NON_BLOCKING};
};

/* Driver calls that failed before `op` ended the plan itself. */
uint64_t fired_before;
bool all_later_fail;

/* Runs `op`. Returns false if it threw an exception of acre. */
bool succeeds(const std::function<void()> &op) {
    try {
        op();
        return true;
    } catch (const acre::error &e) {
        CHECK(e.status() != ACRE_OK && e.detail()[0]);
        return false;
    }
}

/* Fails driver calls inside `op`. After a failed `op`, `is_unchanged` holds; after a successful one
 * `undo` removes its effect. Returns the number of runs in which `op` failed. */
int each_failure(const std::function<void()> &op, const std::function<bool()> &is_unchanged,
                 const std::function<void()> &undo) {
    int failures = 0;
    for (int and_later = 0; and_later < 2; and_later++)
        for (uint32_t nth = 1;; nth += and_later ? ROUNDS(2, 7) : ROUNDS(1, 2)) {
            fired_before = 0;
            all_later_fail = and_later;
            cpp_fault_on(nth, and_later);
            bool done = succeeds(op);
            uint64_t fired = cpp_fault_off() + fired_before;
            failures += !done;
            if (!done)
                CHECK(is_unchanged());
            else
                undo();
            if (!fired) {
                CHECK(done);
                break;
            }
        }
    return failures;
}

} // namespace

TEST(fault_creations_throw_and_leave_nothing) {
    fixture t;
    acre_device_stats before = t.device.stats();
    auto none = [&] {
        acre_device_stats now = t.device.stats();
        return now.vecs == before.vecs && now.ranges == before.ranges &&
               now.streams_live == before.streams_live && now.events_live == before.events_live &&
               now.mem_blocks == before.mem_blocks;
    };
    acre_pool_options options = {};
    options.initial_bytes = 4 * MIB;
    auto undo = [&] {
        t.device.trim();
        CHECK(none());
    };
    CHECK(each_failure([&] { acre::pool pool(t.device, options); }, none, undo) > 0);
    CHECK(each_failure([&] { acre::stream stream(t.device); }, none, undo) > 0);
    CHECK(each_failure([&] { acre::event event(t.device); }, none, undo) > 0);
    CHECK(each_failure([&] { acre::memory m(t.device, ACRE_KIND_DEVICE, 3 * MIB); }, none, undo) >
          0);
    CHECK(each_failure([&] { acre::range range(t.device, 8 * MIB); }, none, undo) > 0);
    CHECK(each_failure([&] { acre::vec<int> vec(t.device); }, none, undo) > 0);
    CHECK(each_failure([&] { acre::device again("soft"); }, none, undo) > 0);
}

TEST(fault_vec_failures_leave_it_unchanged) {
    fixture t;
    acre::vec<int> vec(t.device, {}, t.stream);
    vec.grow(10, t.stream);
    const int *data = vec.data();
    // If all later calls fail too, the vec cannot return to the addresses that it had.
    auto unchanged = [&] {
        bool is_there = vec.data() == data || all_later_fail;
        data = vec.data();
        return vec.size() == 10 && is_there;
    };
    auto undo = [&] {
        vec.resize(10, t.stream);
        vec.shrink_to_fit(t.stream);
        data = vec.data(); // a call that succeeds in spite of a failure may move the vec
    };
    CHECK(each_failure([&] { vec.grow(MIB, t.stream); }, unchanged, undo) > 0);
    std::vector<int> host(MIB);
    CHECK(each_failure([&] { vec.append(host.data(), MIB, t.stream); }, unchanged, undo) > 0);
}

TEST(fault_memory_resize_leaves_it_unchanged) {
    fixture t;
    acre::memory block(t.device, ACRE_KIND_DEVICE, 4 * MIB);
    t.device.fill(block.data(), 9, 4 * MIB, t.stream);
    auto unchanged = [&] {
        return block.size() == 4 * MIB &&
               cpp_read(t.device, static_cast<char *>(block.data()), 4 * MIB, t.stream)[7] == 9;
    };
    auto undo = [&] { block.resize(4 * MIB, t.stream); };
    CHECK(each_failure([&] { block.resize(16 * MIB, t.stream); }, unchanged, undo) > 0);
    CHECK(unchanged());
}

TEST(fault_range_commit_is_all_or_nothing) {
    fixture t;
    acre::range range(t.device, 64 * MIB, acre_range_options(), t.stream);
    auto unchanged = [&] { return range.stats().committed_bytes == 0; };
    auto undo = [&] {
        range.decommit(0, 8 * MIB, t.stream);
        t.stream.sync();
        range.trim();
        t.device.trim();
    };
    CHECK(each_failure([&] { range.commit(0, 8 * MIB, t.stream); }, unchanged, undo) > 0);
}

TEST(fault_plan_requests_leave_the_array_empty) {
    fixture t;
    acre_plan_options options = {};
    options.device_bytes = options.host_bytes = ACRE_PLAN_AS_NEEDED;
    acre::planned<int> array;
    auto request = [&] {
        acre::plan plan(t.device, options);
        acre::planned<int> one;
        if (!plan.try_want(one, MIB))
            CHECK(!one && one.size() == 0);
        plan.want(array, MIB);
    };
    auto empty = [&] { return !array && array.size() == 0; };
    int failures = each_failure(
        request, [&] { return true; }, [] {});
    CHECK(failures > 0 && !empty());
}

TEST(fault_suspend_and_resume_keep_the_contents) {
    fixture t;
    acre::pool pool(t.device);
    char *p = static_cast<char *>(pool.allocate(4 * MIB, t.stream));
    t.device.fill(p, 5, 4 * MIB, t.stream);
    t.stream.sync();
    auto unchanged = [&] { return cpp_read(t.device, p, 4 * MIB, t.stream)[99] == 5; };
    int failures = each_failure(
        [&] {
            acre::suspended away(t.device);
            if (acre::result<void> back = away.try_resume(); !back) {
                fired_before = cpp_fault_off();
                away.resume(); // still suspended: it can be repeated
            }
        },
        unchanged, [&] { CHECK(unchanged()); });
    CHECK(failures > 0);
    pool.deallocate(p, t.stream);
}

TEST(fault_containers_are_unchanged) {
    fixture t;
    acre::pool pool(t.device);
    acre::device_buffer buffer(pool, 1000, t.stream);
    t.device.fill(buffer.data(), 6, 1000, t.stream);
    const void *at = buffer.data();
    auto same_buffer = [&] {
        return buffer.data() == at && buffer.size() == 1000 && buffer.capacity() == 1000 &&
               cpp_read(t.device, static_cast<const char *>(at), 1000, t.stream)[999] == 6;
    };
    auto undo_buffer = [&] {
        buffer.resize(1000);
        buffer.shrink_to_fit();
        at = buffer.data();
        t.stream.sync();
        pool.trim();
    };
    CHECK(each_failure([&] { buffer.resize(16 * MIB); }, same_buffer, undo_buffer) > 0);

    auto one_block = [&] { return pool.stats().live_blocks == 1; };
    auto trim = [&] { t.stream.sync(), pool.trim(), t.device.trim(); };
    std::vector<char> host(4 * MIB);
    auto copy = [&] { acre::device_buffer made(pool, host.data(), host.size(), t.stream); };
    CHECK(each_failure(copy, one_block, trim) > 0);

    uint64_t vecs = t.device.stats().vecs;
    // If all later calls fail too, so does the vec's destruction; the device's close repeats it.
    auto no_vec = [&] { return all_later_fail || t.device.stats().vecs == vecs; };
    auto fill = [&] { acre::device_vector<char> made(t.device, host, t.stream); };
    CHECK(each_failure(fill, no_vec, trim) > 0);
}

TEST(fault_host_objects_are_not_constructed) {
    fixture t;
    acre::pool pinned(t.device, ACRE_KIND_PINNED);
    int constructed = 0;
    struct object {
        char bytes[2 * MIB];
        explicit object(int *count) {
            ++*count;
        }
    };
    auto none = [&] { return constructed == 0 && pinned.stats().live_blocks == 0; };
    auto undo = [&] {
        constructed = 0;
        t.stream.sync();
        pinned.trim();
    };
    CHECK(each_failure([&] { acre::make_host<object>(pinned, t.stream, &constructed); }, none,
                       undo) > 0);
}

int main() {
    if (!cpp_fault_begin())
        return 1;
    return cpp_test::run();
}

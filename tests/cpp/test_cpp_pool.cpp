/* Pools, their callbacks, tags, spillable blocks and suspends in C++. */
#include "cpp_cases.hpp"

#include <stdexcept>
#include <utility>

TEST(pool_every_form_allocates_and_frees) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::pool pool(device);
    void *p = pool.allocate(1000, stream);
    CHECK(p && pool.owns(p) && pool.usable_size(p) >= 1000);
    CHECK(pool.allocate(0, stream) == nullptr);
    void *aligned = pool.allocate(1000, stream, 1 << 16);
    CHECK(reinterpret_cast<uintptr_t>(aligned) % (1 << 16) == 0);
    unsigned char *zeroed = static_cast<unsigned char *>(pool.allocate_zeroed(5000, stream));
    for (unsigned char byte : cpp_read(device, zeroed, 5000, stream))
        CHECK(byte == 0);
    device.fill(zeroed, 7, 5000, stream);
    zeroed = static_cast<unsigned char *>(pool.reallocate(zeroed, 50000, stream));
    CHECK(cpp_read(device, zeroed, 5000, stream)[4999] == 7);
    void *many[16];
    pool.allocate_many(512, 16, stream, many);
    CHECK(pool.stats().live_blocks == 3 + 16);
    pool.deallocate_many(many, 16, stream);
    acre::event event(device);
    event.record(stream);
    pool.deallocate_after(p, event);
    pool.record_use(aligned, stream);
    pool.deallocate(aligned, stream);
    pool.deallocate(zeroed, stream);
    pool.deallocate(nullptr, stream);
    CHECK(pool.stats().live_blocks == 0);
    pool.reserve(8 << 20);
    CHECK(pool.stats().held_bytes >= 8 << 20);
    pool.trim();
    pool.graph_share(stream, 1);
    pool.graph_end(1);
}

TEST(pool_try_forms_return_the_status) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::pool pool(device);
    acre::result<void *> p = pool.try_allocate(1000, stream);
    CHECK(p && *p);
    CHECK(pool.try_deallocate(*p, stream));
    CHECK(pool.try_deallocate(*p, stream).status() == ACRE_E_POINTER);
    CHECK(pool.try_allocate(size_t(1) << 60, stream).status() == ACRE_E_DEVICE_MEMORY);
    CHECK(!pool.try_allocate_zeroed(size_t(1) << 60, stream));
    CHECK(pool.try_set_limits(2, 1).status() == ACRE_E_INVALID);
    CHECK_THROWS(acre::call_error, pool.set_limits(2, 1));
    CHECK(!pool.try_record_use(stream.get(), stream) && !pool.try_reallocate(&p, 9, stream));
}

TEST(pool_info_says_kind_and_device) {
    acre::device device(device_name);
    acre::pool pinned(device, ACRE_KIND_PINNED);
    CHECK(pinned.info().kind == ACRE_KIND_PINNED && pinned.info().device == device.get());
    CHECK(acre::pool_ref::default_of(device).info().is_default == 1);
    CHECK(acre::pool_ref().try_info().status() == ACRE_E_NULL);
}

TEST(pool_moves_and_leaves_nothing_behind) {
    acre::device device(device_name);
    acre::pool one(device), two(device, ACRE_KIND_PINNED);
    acre_pool *first = one.get(), *second = two.get();
    CHECK(one != two && one == acre::pool_ref(first));
    one.swap(two);
    CHECK(one.get() == second && two.get() == first);
    acre::pool &same = one;
    one = std::move(same);
    CHECK(one.get() == second);
    one = std::move(two);
    CHECK(one.get() == first && !two);
    acre_pool_stats stats = {};
    stats.struct_size = sizeof stats;
    CHECK(acre_pool_get_stats(second, &stats) == ACRE_E_HANDLE); // destroyed by the assignment
    acre::pool adopted = acre::pool::adopt(one.release());
    CHECK(!one && adopted.get() == first);
    adopted.reset();
    CHECK(acre_pool_get_stats(first, &stats) == ACRE_E_HANDLE);
}

TEST(pool_walk_lists_blocks_and_stops_on_false) {
    acre::device device(device_name);
    acre::pool pool(device);
    void *a = pool.allocate(1000, nullptr), *b = pool.allocate(2000, nullptr);
    std::vector<void *> seen;
    size_t bytes = 0;
    pool.walk([&](void *p, size_t size) {
        seen.push_back(p);
        bytes += size;
    });
    CHECK(seen.size() == 2 && bytes >= 3000);
    CHECK((seen[0] == a && seen[1] == b) || (seen[0] == b && seen[1] == a));
    int count = 0;
    pool.walk([&](void *, size_t) { return ++count < 1; });
    CHECK(count == 1);
    pool.deallocate(a, nullptr);
    pool.deallocate(b, nullptr);
}

TEST(pool_walk_exception_ends_it_and_continues_outside) {
    acre::device device(device_name);
    acre::pool pool(device);
    void *blocks[4];
    pool.allocate_many(1000, 4, nullptr, blocks);
    int count = 0;
    try {
        pool.walk([&](void *, size_t) {
            if (++count == 2)
                throw std::runtime_error("second");
        });
        FAIL("it throws");
    } catch (const std::runtime_error &e) {
        CHECK(std::string(e.what()) == "second");
    }
    CHECK(count == 2);
    void *p = pool.allocate(1000, nullptr); // the pool's lock is free
    pool.deallocate(p, nullptr);
    pool.deallocate_many(blocks, 4, nullptr);
}

TEST(oom_callback_frees_memory_until_its_scope_ends) {
    acre::device device(device_name);
    acre::pool pool(device);
    pool.set_limits(0, 8 << 20);
    void *kept = pool.allocate(6 << 20, nullptr);
    int calls = 0;
    {
        acre::oom_callback callback(pool, [&](uint64_t wanted, uint32_t attempt) {
            CHECK(wanted >= 4 << 20 && attempt == 0);
            calls++;
            pool.deallocate(std::exchange(kept, nullptr), nullptr);
            return true;
        });
        void *p = pool.allocate(4 << 20, nullptr);
        CHECK(p && calls == 1 && !callback.take_exception());
        pool.deallocate(p, nullptr);
    }
    kept = pool.allocate(6 << 20, nullptr);
    CHECK_THROWS(std::bad_alloc, (void)pool.allocate(4 << 20, nullptr));
    CHECK(calls == 1);
    pool.deallocate(kept, nullptr);
}

TEST(oom_callback_exception_is_kept) {
    acre::device device(device_name);
    acre::pool pool(device);
    pool.set_limits(0, 8 << 20);
    void *kept = pool.allocate(6 << 20, nullptr);
    acre::oom_callback callback(
        pool, [](uint64_t, uint32_t) -> bool { throw std::runtime_error("callback"); });
    CHECK_THROWS(acre::out_of_memory, (void)pool.allocate(4 << 20, nullptr));
    std::exception_ptr thrown = callback.take_exception();
    CHECK(thrown && !callback.take_exception());
    CHECK_THROWS(std::runtime_error, std::rethrow_exception(thrown));
    pool.deallocate(kept, nullptr);
}

static uint64_t tag_bytes(const char *path) {
    uint64_t bytes = 0;
    acre::walk_tags([&](const acre_tag_info &info) {
        if (std::strcmp(info.path, path) == 0)
            bytes = info.live_bytes;
    });
    return bytes;
}

TEST(tag_scope_names_allocations_until_it_ends) {
    acre::device device(device_name);
    acre::pool pool(device);
    void *outer = nullptr, *inner = nullptr, *outside = nullptr;
    try {
        acre::tag_scope step("cpp step");
        outer = pool.allocate(1 << 20, nullptr);
        {
            acre::tag_scope forward("forward");
            inner = pool.allocate(2 << 20, nullptr);
        }
        CHECK(tag_bytes("cpp step/forward") >= 2 << 20);
        CHECK_THROWS(acre::call_error, acre::tag_scope wrong("a/b"));
        CHECK(!acre::tag_scope::try_push(""));
        throw std::runtime_error("unwinds");
    } catch (const std::runtime_error &) {
    }
    uint64_t bytes = tag_bytes("cpp step");
    CHECK(bytes >= 3 << 20);
    outside = pool.allocate(1 << 20, nullptr);
    CHECK(tag_bytes("cpp step") == bytes);
    for (void *p : {outer, inner, outside})
        pool.deallocate(p, nullptr);
    CHECK(tag_bytes("cpp step") == 0);
    acre::set_tag_limit("cpp step", 1 << 20);
    {
        acre::tag_scope step("cpp step");
        CHECK_THROWS(acre::out_of_memory, (void)pool.allocate(4 << 20, nullptr));
    }
    acre::set_tag_limit("cpp step", 0);
    CHECK(acre_tag_pop() == ACRE_E_INVALID); // every scope popped its tag
}

TEST(suspended_comes_back_at_the_end_of_the_scope) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::pool pool(device);
    unsigned char *p = static_cast<unsigned char *>(pool.allocate(4 << 20, stream));
    device.fill(p, 42, 4 << 20, stream);
    {
        acre::suspended away(device);
        CHECK(away.info().released_bytes >= 4 << 20);
        CHECK_THROWS(acre::call_error, device.fill(p, 1, 1, stream));
        CHECK(!acre::suspended::try_suspend(device));
        unsigned char kept[3] = {};
        away.read(p + 12345, sizeof kept, kept);
        CHECK(kept[0] == 42 && kept[2] == 42);
        CHECK(away.try_read(kept, 1, kept).status() == ACRE_E_POINTER);
    }
    CHECK(cpp_read(device, p, 4 << 20, stream)[12345] == 42);
    acre_suspend_options drop = {};
    drop.how = ACRE_SUSPEND_DROP;
    acre::suspended away(device, drop);
    acre::suspended moved(std::move(away));
    CHECK(!away.get() && moved.get());
    moved.resume();
    CHECK(!moved.get() && device.stats().suspended_bytes == 0);
    acre::forget_suspended(device);
    CHECK(!acre::try_forget_suspended(acre::device_ref()));
    pool.deallocate(p, stream);
}

TEST(bring_keeps_a_spillable_block_on_the_device) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::pool pool(device);
    pool.set_limits(0, 32 << 20);
    void *p = pool.allocate_spillable(24 << 20, stream);
    device.fill(p, 7, 24 << 20, stream);
    {
        acre::bring here(p, stream);
        CHECK(!pool.try_allocate(24 << 20, stream)); // the block does not leave
    }
    void *q = pool.allocate(24 << 20, stream); // it does now
    CHECK(pool.stats().away_bytes == 24 << 20);
    CHECK_THROWS(std::bad_alloc, acre::bring away(p, stream));
    pool.deallocate(q, stream);
    {
        acre::bring here(p, stream);
        CHECK(cpp_read(device, static_cast<unsigned char *>(p), 24 << 20, stream)[5] == 7);
    }
    pool.deallocate(p, stream);
}

int main() {
    return cpp_test::run();
}

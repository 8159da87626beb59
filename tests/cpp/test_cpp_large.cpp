/* Vecs, ranges, plans, heaps, shares and traces in C++. */
#include "cpp_cases.hpp"

#include <acre/cpp/heap.hpp>
#include <acre_soft.h>

#include <cinttypes>
#include <stdexcept>
#include <unistd.h>
#include <utility>

enum : size_t { MIB = 1 << 20 };

TEST(vec_grows_in_place_and_copies_nothing) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::vec<int> vec(device, {}, stream);
    int *first = vec.data();
    CHECK(first && vec.empty() && vec.capacity() >= 1 << 20);
    int host[3] = {1, 2, 3};
    vec.append(host, 3, stream);
    vec.grow(MIB, stream);
    CHECK(vec.size() == MIB + 3 && vec.data() == first && vec.size_bytes() == vec.size() * 4);
    CHECK(cpp_read(device, vec.data(), 3, stream)[2] == 3);
    vec.resize(2, stream);
    vec.reserve(10, stream);
    vec.record_use(stream);
    CHECK(vec.size() == 2 && vec.info().size == 2 && vec.info().copied_bytes == 0);
    vec.shrink(1, stream);
    vec.clear();
    vec.shrink_to_fit(stream);
    CHECK(vec.empty() && vec.mapped_bytes() == 0);
    CHECK(vec.stream() == acre::stream_ref(stream));
}

TEST(vec_limit_throws_and_changes_nothing) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre_vec_options options = {};
    options.limit_bytes = 4 * MIB;
    acre::vec<int> vec(device, options, stream);
    vec.grow(1000, stream);
    CHECK_THROWS(acre::out_of_memory, vec.grow(2 * MIB, stream));
    CHECK(vec.size() == 1000 && !vec.try_resize(2 * MIB, stream));
    CHECK(vec.size() == 1000);
    CHECK_THROWS(acre::call_error, vec.shrink(1001, stream));
}

TEST(vec_moves_and_is_destroyed_once) {
    acre::device device(device_name);
    uint64_t before = device.stats().vecs;
    {
        acre::vec<double> one(device), two(device);
        one.grow(5, nullptr);
        acre::vec<double> three(std::move(one));
        CHECK(!one && one.size() == 0 && one.data() == nullptr && one.capacity() == 0);
        CHECK(three.size() == 5);
        acre::vec<double> &same = three;
        three = std::move(same);
        CHECK(three.size() == 5);
        two = std::move(three);
        CHECK(two.size() == 5 && device.stats().vecs == before + 1);
        acre::vec_ref<double> ref = two;
        CHECK(ref == acre::vec_ref<double>(two.get()) && ref.size() == 5);
    }
    CHECK(device.stats().vecs == before);
}

TEST(vec_outlives_its_stream_and_is_destroyed) {
    acre::device device(device_name);
    uint64_t before = device.stats().vecs;
    {
        acre::vec<int> vec(device);
        acre::stream stream(device);
        vec.set_stream(stream);
        vec.grow(10, stream);
        device.fill(vec.data(), 1, 40, stream);
    }
    CHECK(device.stats().vecs == before);
}

TEST(range_commits_pieces_under_a_budget) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::range_budget budget(device, 8 * MIB);
    acre::range one(device, 64 * MIB, budget, stream), two(device, 64 * MIB, budget, stream);
    CHECK(one.data() && one.data() != two.data());
    one.commit(4 * MIB, 4 * MIB, stream);
    two.commit(0, 4 * MIB, stream);
    CHECK_THROWS(acre::out_of_memory, two.commit(8 * MIB, 2 * MIB, stream));
    CHECK(two.try_commit(63 * MIB, 4 * MIB, stream).status() != ACRE_OK);
    std::vector<uint64_t> offsets;
    one.walk([&](const acre_range_part &part) { offsets.push_back(part.offset); });
    CHECK(offsets.size() == 1 && offsets[0] == 4 * MIB);
    one.record_use(stream);
    one.decommit(4 * MIB, 4 * MIB, stream);
    CHECK(budget.stats().committed_bytes == 4 * MIB && one.stats().idle_bytes == 4 * MIB);
    CHECK_THROWS(std::runtime_error, one.walk([](const acre_range_part &) -> bool {
        throw std::runtime_error("walk");
    }));
    stream.sync();
    one.trim();
    budget.trim();
    budget.set_limit(16 * MIB);
    two.commit(8 * MIB, 2 * MIB, stream);
    acre::range moved(std::move(two));
    CHECK(!two && two.data() == nullptr && moved.stats().committed_bytes == 6 * MIB);
    CHECK(budget.stats().ranges == 2);
    one.reset();
    CHECK(budget.stats().ranges == 1);
}

TEST(range_budget_is_destroyed_once) {
    acre::device device(device_name);
    acre_range_budget *handle = nullptr;
    acre_range_stats stats = {};
    stats.struct_size = sizeof stats;
    {
        acre::range_budget one(device, 8 * MIB);
        handle = one.get();
        acre::range_budget two(std::move(one));
        CHECK(!one && acre_range_budget_get_stats(handle, &stats) == ACRE_OK);
    }
    CHECK(acre_range_budget_get_stats(handle, &stats) == ACRE_E_HANDLE);
}

static acre_plan_options small_plan(uint32_t flags = 0) {
    acre_plan_options options = {};
    options.device_bytes = 8 * MIB;
    options.host_bytes = MIB;
    options.flags = flags;
    return options;
}

TEST(plan_typed_requests_get_memory) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::plan plan(device, small_plan());
    acre::planned<float> weights, biases, early, late;
    acre::planned<int> input;
    plan.want(input, 1000, ACRE_PLACE_HOST);
    CHECK(input && input.size() == 1000);
    input.data()[999] = 1;
    acre_plan_wish both[] = {plan.wish(weights, 1024, "weights"), plan.wish(biases, 64, "biases")};
    plan.want_many(both, 2, ACRE_PLAN_ADJACENT);
    CHECK(biases.data() == weights.data() + 1024);
    plan.want_for(early, MIB, 0, 1);
    plan.want_for(late, MIB, 2, 3);
    CHECK(!early && !late);
    acre::planned<char> too_much;
    CHECK_THROWS(std::bad_alloc, plan.want(too_much, 64 * MIB));
    CHECK_THROWS(std::bad_alloc, plan.want(early, SIZE_MAX)); // count * size overflows
    CHECK(!too_much && too_much.size() == 0);
    plan.commit();
    CHECK(early && early.data() == late.data()); // their steps do not overlap
    CHECK_THROWS(acre::call_error, plan.want(too_much, 1));
    int wishes = 0;
    plan.walk([&](const acre_plan_placed &placed) { wishes += placed.p != nullptr; });
    CHECK(wishes == 5 && plan.stats().is_committed);
    plan.release_round(stream);
    CHECK(plan.stats().rounds == 1 && plan.stats().wishes == 0);
}

/* In a later round an array still has the address of the round before, whose block may be smaller
 * than what is now requested. */
TEST(plan_arrays_are_never_larger_than_their_blocks) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre::plan plan(device, small_plan());
    acre::planned<float> array, many;
    plan.want(array, 10);
    float *p = array.data();
    CHECK(p && !plan.try_want(array, 64 * MIB));
    CHECK(array.data() == p && array.size() == 10); // a failed request changes nothing
    acre_plan_wish wish = plan.wish(many, 10);
    plan.want_many(&wish, 1);
    CHECK(many && many.size() == 10);
    wish = plan.wish(many, 64 * MIB);
    CHECK(!plan.try_want_many(&wish, 1));
    CHECK(!many && many.size() == 0);
    plan.release_round(stream);
    plan.want_for(array, 1000, 0, 1);
    CHECK(!array && array.size() == 0); // until commit
    plan.cancel();
    CHECK(!array && array.size() == 0);
    plan.want_for(array, 2000, 0, 1);
    plan.commit();
    CHECK(array && array.size() == 2000);
}

TEST(plan_deferred_requests_wait_for_satisfy) {
    acre::device device(device_name);
    acre::plan plan(device, small_plan(ACRE_PLAN_DEFERRED));
    acre::planned<int> one, two;
    plan.want(one, 10);
    CHECK(!one);
    plan.cancel();
    plan.want(two, 10);
    plan.satisfy();
    CHECK(!one && two);
    acre::plan moved(std::move(plan));
    CHECK(!plan && moved.stats().wishes == 1);
}

TEST(plan_step_ends_with_its_scope) {
    acre::device device(device_name);
    acre::stream stream(device);
    acre_plan_options options = {};
    options.device_bytes = options.host_bytes = ACRE_PLAN_AS_NEEDED;
    acre::plan plan(device, options);
    void *first = nullptr;
    for (int i = 0; i < 4; i++) {
        acre::plan_step step = plan.step(stream);
        void *p = step.allocate(5000);
        CHECK(i < 2 || p == first); // from the second step on, the plan serves it
        first = p;
        CHECK(plan.try_step(stream).status() == ACRE_E_BUSY);
        step.deallocate(p);
        if (i == 3)
            step.end();
    }
    CHECK(plan.stats().steps == 4 && plan.stats().hits == 3);
    CHECK_THROWS(acre::call_error, (void)plan.allocate(1));
    try {
        acre::plan_step step = plan.step(stream);
        throw std::runtime_error("unwinds");
    } catch (const std::runtime_error &) {
    }
    CHECK(plan.stats().steps == 5);
}

namespace {
struct heap_work {
    acre_heap_handle h;
    void *p;
};

void heap_kernel(void *arg) {
    heap_work *work = static_cast<heap_work *>(arg);
    work->p = acre_heap_malloc(work->h, 100);
}
} // namespace

TEST(heap_host_side_counts_and_walks) {
    acre::device device(device_name);
    if (std::strcmp(device_name, "soft") != 0)
        return; // a GPU does not run this kernel
    acre_heap_options options = {};
    options.limit_bytes = 64 * MIB;
    acre::heap heap(device, options);
    heap_work work = {heap.handle(), nullptr};
    const uint32_t one[3] = {1, 1, 1};
    acre::check(acre_soft_launch(device.get(), nullptr, heap_kernel, one, one, 0, &work));
    device.sync();
    void *p = work.p;
    CHECK(p && heap.stats().live_blocks == 1);
    int blocks = 0;
    heap.walk([&](void *block, uint64_t bytes) {
        CHECK(block == p && bytes >= 100);
        blocks++;
    });
    heap.inspect([&](const acre_heap_block &block) { return blocks += block.address == p, true; });
    CHECK(blocks == 2);
    CHECK_THROWS(std::runtime_error,
                 heap.walk([](void *, uint64_t) { throw std::runtime_error("walk"); }));
    heap.grow(16 * MIB);
    CHECK(heap.stats().mapped_bytes >= 16 * MIB && heap.limit() == 64 * MIB);
    CHECK_THROWS(acre::out_of_memory, heap.grow(128 * MIB));
    heap.set_limit(32 * MIB);
    CHECK(heap.limit() == 32 * MIB);
    heap.free_all();
    CHECK(heap.stats().live_blocks == 0);
    heap.trim();
    acre::heap moved(std::move(heap));
    CHECK(!heap && moved.handle().base == work.h.base);
    CHECK(heap.try_stats().status() == ACRE_E_NULL);
}

TEST(share_is_imported_until_it_ends) {
    acre::device device(device_name);
    acre_vec_options options = {};
    options.flags = ACRE_VEC_SHAREABLE;
    acre::result<acre::vec<int>> created = acre::vec<int>::try_create(device, options);
    if (created.status() == ACRE_E_UNSUPPORTED)
        return;
    acre::vec<int> vec = std::move(created).value();
    int host[2] = {4, 5};
    vec.append(host, 2, nullptr);
    device.sync();
    char path[64];
    std::snprintf(path, sizeof path, "@acre-cpp-%d-%s", int(getpid()), device_name);
    acre_import_options at_once = {};
    at_once.struct_size = sizeof at_once;
    at_once.wait_ms = 1;
    CHECK_THROWS(acre::call_error, acre::imported(device, path, at_once));
    {
        acre::share share(vec.ref(), path);
        CHECK(acre_vec_destroy(vec.get(), nullptr) == ACRE_E_BUSY);
        acre::imported opened(device, path);
        acre::imported there = acre::imported::adopt(opened.release(), nullptr);
        CHECK(there.info().bytes == 8 && there.info().element_bytes == 4);
        CHECK(device.stats().shares == 1 && device.stats().imports == 1);
        vec.append(host, 2, nullptr);
        device.sync();
        there.refresh(nullptr);
        CHECK(cpp_read(device, static_cast<int *>(there.info().data), 4, nullptr)[3] == 5);
    }
    CHECK(device.stats().shares == 0 && device.stats().imports == 0);
    acre::memory block(device, ACRE_KIND_DEVICE, 2 * MIB);
    {
        acre::share again(device, block.data(), path);
        acre::share kept = acre::share::adopt(again.release());
        CHECK(!again && kept && acre_mem_free(device.get(), block.data()) == ACRE_E_BUSY);
    }
    block.reset();
    CHECK(device.stats().mem_blocks == 0);
}

TEST(trace_scope_writes_a_file) {
    acre::device device(device_name);
    char path[] = "/tmp/acre-cpp-XXXXXX", text[8] = "";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    {
        acre::trace_scope trace(path);
        CHECK(!acre::trace_scope::try_start(path));
        acre::trace_mark("here");
    }
    CHECK(acre_trace_start("/nonexistent/folder/file", nullptr) == ACRE_E_SYSTEM); // not busy
    FILE *file = std::fopen(path, "r");
    CHECK(file && std::fread(text, 1, 4, file) == 4);
    std::fclose(file);
    unlink(path);
}

int main() {
    return cpp_test::run();
}

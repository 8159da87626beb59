/* Containers keep the order of their streams: memory that work in flight uses is neither reused nor
 * unmapped before that work is done.
 *
 * The streams are non-blocking, so that nothing orders their work but acre. On the soft device,
 * work stays in flight (cpp_lag.hpp), and ACRE_SOFT_CHECK reports memory that is unmapped although
 * the host has not waited for the work that used it. On a GPU the same calls must succeed. */
#include "cpp_cases.hpp"

#include <cstdlib>
#include <unistd.h>
#include <utility>

#include "cpp_lag.hpp"

enum : size_t { MIB = 1 << 20 };

namespace {

int reports; // of the soft device
char first_report[512];

void note_report(void *, acre_log_level, const char *area, const char *line) {
    if (std::strcmp(area, "soft") == 0 && !reports++)
        std::snprintf(first_report, sizeof first_report, "%s", line);
}

bool no_reports() {
    if (reports)
        std::fprintf(stderr, "%d reports; the first: %s\n", reports, first_report);
    return std::exchange(reports, 0) == 0;
}

struct fixture {
    acre::device device;
    acre::stream stream, other;
    acre::pool pool;
    explicit fixture(const char *name)
        : device(name), stream(device, ACRE_STREAM_NON_BLOCKING),
          other(device, ACRE_STREAM_NON_BLOCKING), pool(device) {
        no_reports();
    }
    /* Queues work that stays in flight. */
    void use(void *p, size_t bytes, acre::stream_ref by) const {
        device.fill(p, 1, bytes, by);
    }
    bool in_order(const cpp_lag &lag, const void *p, acre::stream_ref by) const {
        return cpp_freed_in_order(lag, device, pool, p, MIB, by);
    }
};

struct large {
    char bytes[MIB];
};

} // namespace

/* What the other tests rely on. */
TEST(order_soft_device_reports_early_unmapping) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    if (!lag.is_on())
        return;
    acre::vec<char> vec(t.device);
    vec.grow(MIB, nullptr);
    t.use(vec.data(), MIB, t.stream);
    CHECK(!t.stream.query());
    vec.reset(); // waits for the legacy stream, which is the wrong one
    CHECK(reports > 0 && std::strstr(first_report, "never waited"));
    reports = 0;
}

TEST(order_buffer_frees_on_its_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::device_buffer buffer(t.pool, MIB, t.stream);
    void *p = buffer.data();
    t.use(p, MIB, t.stream);
    buffer.reset();
    CHECK(t.in_order(lag, p, t.stream));
    {
        acre::device_buffer scoped(t.pool, MIB, t.stream);
        p = scoped.data();
        t.use(p, MIB, t.stream);
    }
    CHECK(t.in_order(lag, p, t.stream));
}

TEST(order_buffer_assigned_to_frees_on_its_old_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::device_buffer one(t.pool, MIB, t.stream), two(t.pool, 2 * MIB, t.other);
    void *p = one.data();
    t.use(p, MIB, t.stream);
    one = std::move(two);
    CHECK(one.stream() == acre::stream_ref(t.other));
    CHECK(t.in_order(lag, p, t.stream));
}

TEST(order_buffer_growth_frees_the_old_block_on_its_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::device_buffer buffer(t.pool, MIB, t.stream), behind(t.pool, MIB, t.stream);
    void *p = buffer.data();
    t.use(p, MIB, t.stream);
    buffer.reserve(64 * MIB);
    CHECK(buffer.data() != p);
    CHECK(t.in_order(lag, p, t.stream));
}

TEST(order_buffer_copy_on_another_stream_is_a_recorded_use) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::device_buffer from(t.pool, MIB, t.stream);
    void *p = from.data();
    acre::device_buffer copy(from, t.other);
    CHECK(copy.stream() == acre::stream_ref(t.other));
    from.reset(); // on t.stream, which does not wait for the copy
    acre::device_buffer next(t.pool, MIB, t.stream);
    CHECK(!lag.is_on() || (next.data() != p && !t.other.query()));
}

TEST(order_unique_ptr_frees_on_its_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::unique_ptr<char[]> array = acre::make_unique<char[]>(t.pool, MIB, t.stream);
    void *p = array.get();
    t.use(p, MIB, t.stream);
    array.reset();
    CHECK(t.in_order(lag, p, t.stream));
    acre::unique_ptr<large> one = acre::make_unique<large>(t.pool, t.other);
    p = one.get();
    one.get_deleter().set_stream(t.stream);
    t.use(p, MIB, t.stream);
    one.reset();
    acre::device_buffer next(t.pool, MIB, t.other);
    CHECK(!lag.is_on() || (next.data() != p && !t.stream.query()));
}

TEST(order_host_ptr_frees_on_its_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::pool pinned(t.device, ACRE_KIND_PINNED);
    acre::device_buffer work(t.pool, MIB, t.stream); // none may use the object itself by then
    acre::host_ptr<large> one = acre::make_host<large>(pinned, t.stream);
    const void *p = one.get();
    t.use(work.data(), MIB, t.stream);
    one.reset();
    CHECK(cpp_freed_in_order(lag, t.device, pinned, p, MIB, t.stream));
}

TEST(order_vec_destruction_waits_for_its_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::vec<char> vec(t.device, {}, t.stream);
    vec.grow(MIB, t.stream);
    t.use(vec.data(), MIB, t.stream);
    CHECK(!lag.is_on() || !t.stream.query());
    vec.reset();
    CHECK(no_reports() && t.stream.query());
    acre::vec<char> later(t.device);
    later.grow(MIB, nullptr);
    later.set_stream(t.stream);
    t.use(later.data(), MIB / 2, t.stream);
    t.use(later.data() + MIB / 2, MIB / 2, t.other);
    later.record_use(t.other);
    later.reset();
    CHECK(no_reports() && t.stream.query() && t.other.query());
}

TEST(order_range_destruction_waits_for_its_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    acre::range range(t.device, 64 * MIB, acre_range_options{}, t.stream);
    range.commit(0, 4 * MIB, t.stream);
    t.use(range.data(), MIB, t.stream);
    CHECK(!lag.is_on() || !t.stream.query());
    range.reset();
    CHECK(no_reports() && t.stream.query());
    acre::range later(t.device, 64 * MIB);
    later.commit(0, 4 * MIB, nullptr);
    later.set_stream(t.stream);
    t.use(later.data(), MIB, t.stream);
    t.use(static_cast<char *>(later.data()) + MIB, MIB, t.other);
    later.record_use(t.other);
    later.reset();
    CHECK(no_reports() && t.stream.query() && t.other.query());
}

TEST(order_vector_waits_for_its_stream) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    {
        acre::device_vector<char> vector(t.device, 32 * MIB, t.stream);
        t.use(vector.data(), vector.size(), t.stream);
        vector.resize(MIB); // unmaps the rest
        vector.shrink_to_fit();
        CHECK(no_reports());
        t.use(vector.data(), MIB, t.stream);
    }
    CHECK(no_reports() && t.stream.query());
}

TEST(order_vector_new_stream_records_the_old_one) {
    fixture t(device_name);
    cpp_lag lag(t.device);
    {
        acre::device_vector<char> vector(t.device, MIB, t.stream);
        t.use(vector.data(), MIB, t.stream);
        vector.set_stream(t.other);
        CHECK(!lag.is_on() || !t.stream.query());
    }
    CHECK(no_reports() && t.stream.query());
}

/* Calls copy(from) with `from` on t.stream, which queues a copy from it on t.other, and then unmaps
 * memory of `from` or all of it. */
template <class From, class Copy> void copy_then_unmap(const fixture &t, From &from, Copy copy) {
    t.use(from.data(), from.size(), t.stream);
    t.stream.sync();
    {
        cpp_lag lag(t.device);
        copy(from);
        CHECK(!lag.is_on() || !t.other.query());
        from.ref().resize(1, t.stream); // unmaps the second chunk
        CHECK(no_reports() && t.other.query());
        copy(from);
        from = From(t.device);
        CHECK(no_reports() && t.other.query());
    }
}

TEST(order_vector_copied_on_another_stream_is_a_recorded_use) {
    fixture t(device_name);
    acre::device_vector<char> to(t.device, t.other);
    std::vector<acre::device_vector<char>> made; // not destroyed in between, which would wait
    auto construct = [&](const auto &from) { made.emplace_back(t.device, from, t.other); };
    auto append = [&](const auto &from) { to.append(from); };
    auto assign = [&](const auto &from) { to.assign(from); };
    auto try_append = [&](const auto &from) { CHECK(to.try_append(from)); };
    auto try_assign = [&](const auto &from) { CHECK(to.try_assign(from)); };
    auto by_ref = [&](const auto &from) { to.append(from.ref()); };
    auto check = [&](auto copy) {
        acre::device_vector<char> vector(t.device, 2 * MIB, t.stream);
        vector.resize(8 * MIB); // a chunk of its own
        copy_then_unmap(t, vector, copy);
        acre::vec<char> vec(t.device, {}, t.stream);
        vec.grow(2 * MIB, t.stream);
        vec.grow(6 * MIB, t.stream);
        copy_then_unmap(t, vec, copy);
    };
    check(construct);
    check(append);
    check(assign);
    check(try_append);
    check(try_assign);
    check(by_ref);
}

TEST(order_vector_push_back_reads_the_element_at_once) {
    fixture t(device_name);
    acre::memory pinned(t.device, ACRE_KIND_PINNED, sizeof(int));
    int *element = static_cast<int *>(pinned.data());
    acre::device_vector<int> vector(t.device, t.stream);
    {
        cpp_lag lag(t.device);
        for (*element = 0; *element < 4; ++*element)
            vector.push_back(*element);
    }
    CHECK(vector.to_host() == std::vector<int>({0, 1, 2, 3}));
}

TEST(order_vector_copies_of_vectors_have_their_elements) {
    fixture t(device_name);
    acre::device_vector<int> from(t.device, {1, 2, 3}, t.stream), empty(t.device);
    t.stream.sync();
    acre::device_vector<int> to(t.device, from, t.other);
    to.append(to);
    to.append(from.ref());
    to.append(empty);
    to.append(
        acre::device_vector<int>(t.device, {4}, t.other)); // destroyed before the copy is done
    CHECK(to.to_host() == std::vector<int>({1, 2, 3, 1, 2, 3, 1, 2, 3, 4}));
    to.assign(from);
    CHECK(to.to_host() == std::vector<int>({1, 2, 3}));
    CHECK(to.try_append(acre::vec_ref<int>()) && to.try_assign(empty) && to.empty());
}

TEST(order_import_is_closed_after_the_work_of_its_stream) {
    fixture t(device_name);
    acre_vec_options options = {};
    options.flags = ACRE_VEC_SHAREABLE;
    acre::result<acre::vec<char>> created = acre::vec<char>::try_create(t.device, options);
    if (created.status() == ACRE_E_UNSUPPORTED)
        return;
    acre::vec<char> vec = std::move(created).value();
    vec.grow(MIB, nullptr);
    t.use(vec.data(), MIB, nullptr);
    t.device.sync();
    char path[64];
    std::snprintf(path, sizeof path, "@acre-cpp-order-%d-%s", int(getpid()), device_name);
    acre::share share(vec.ref(), path);
    acre_import *handle = nullptr;
    acre::check(acre_import_open(t.device.get(), path, nullptr, &handle));
    acre::imported import = acre::imported::adopt(handle, t.stream);
    acre::device_buffer to(t.pool, MIB, t.stream);
    CHECK(t.device.stats().imports == 1);
    cpp_lag lag(t.device);
    t.device.copy(to.data(), import.info().data, MIB, t.stream);
    CHECK(!lag.is_on() || !t.stream.query());
    import.reset();
    CHECK(no_reports() && t.stream.query());
    CHECK(t.device.stats().imports == 0);
}

int main() {
    setenv("ACRE_SOFT_CHECK", "1", 1); // before the first open
    acre::check(acre_log_set(note_report, nullptr, ACRE_LOG_ERROR));
    return cpp_test::run();
}

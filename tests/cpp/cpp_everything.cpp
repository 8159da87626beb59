// All headers of the C++ API in one file, with every template instantiated. test_cpp_headers.sh
// compiles it with each compiler and standard, with and without exceptions.
#include <acre/acre.hpp>
#include <acre/cpp/heap.hpp>
#include <acre/cpp/pmr.hpp>
#include <acre_heap.hpp>

struct point {
    float x, y;
};

template class acre::result<int>;
template class acre::vec_ref<point>;
template class acre::vec<point>;
template class acre::planned<point>;
template class acre::device_vector<point>;
template class acre::host_delete<point>;

struct on_memory {
    bool operator()(uint64_t, uint32_t) const {
        return false;
    }
};
template class acre::oom_callback<on_memory>;

#if defined(__cpp_lib_span)
static_assert(std::is_convertible_v<acre::device_vector<point> &, std::span<point>>);
static_assert(std::is_convertible_v<const acre::device_vector<point> &, std::span<const point>>);
static_assert(!std::is_convertible_v<const acre::device_vector<point> &, std::span<point>>);
static_assert(std::is_convertible_v<acre::vec<point> &, std::span<point>>);
static_assert(std::is_convertible_v<acre::vec_ref<point>, std::span<point>>);
#elif __cplusplus >= 202002L
#error "C++20 has std::span"
#endif

// One call of every function template.
acre::result<void> use_templates(acre::device_ref device, acre::pool_ref pool,
                                 acre::stream_ref stream, acre::plan_ref plan, acre::heap_ref heap,
                                 acre::range_ref range);
acre::result<void> use_templates(acre::device_ref device, acre::pool_ref pool,
                                 acre::stream_ref stream, acre::plan_ref plan, acre::heap_ref heap,
                                 acre::range_ref range) {
    static acre::planned<point> array;
    acre_plan_wish wish = plan.wish(array, 1);
    plan.want_many(&wish, 1);
    plan.want(array, 1);
    plan.want_for(array, 1, 0, 1);
    plan.walk([](const acre_plan_placed &) {});
    heap.walk([](void *, uint64_t) { return true; });
    heap.inspect([](const acre_heap_block &) {});
    range.walk([](const acre_range_part &) {});
    acre::walk_tags([](const acre_tag_info &) {});
    acre::unique_ptr<point[]> many = acre::make_unique<point[]>(pool, 3, stream);
    acre::unique_ptr<point> one = acre::make_unique<point>(pool, stream);
    acre::host_ptr<point> object = acre::make_host<point>(pool, stream);
    acre::host_ptr<point[]> objects = acre::make_host<point[]>(pool, 3, stream);
    acre::device_vector<point> vector(device, {point{}}, stream);
    acre::share share(vector.ref(), "@nowhere");
    return pool.try_walk([](void *, size_t) {});
}

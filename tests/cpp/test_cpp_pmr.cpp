/* Containers of the standard library in memory of pools. */
#include "cpp_cases.hpp"

#include <acre/cpp/pmr.hpp>

#include <map>
#include <string>

TEST(pmr_containers_live_in_the_pool) {
    acre::device device(device_name);
    for (acre_kind kind : {ACRE_KIND_PINNED, ACRE_KIND_MAPPED, ACRE_KIND_MANAGED}) {
        acre::pool pool(device, kind);
        acre::pmr_resource resource(pool);
        {
            std::pmr::vector<int> vector(&resource);
            for (int i = 0; i < 1000; i++)
                vector.push_back(i);
            CHECK(pool.owns(vector.data()) && vector[999] == 999);
            CHECK(acre::query_memory(device, vector.data()).kind == kind);
            std::pmr::map<int, std::pmr::string> map(&resource);
            map[1] = "a string that is too long for the object itself";
            CHECK(pool.owns(map.at(1).data()) && pool.stats().live_blocks == 3);
        }
        CHECK(pool.stats().live_blocks == 0);
    }
}

TEST(pmr_device_pool_is_refused) {
    acre::device device(device_name);
    acre::pool pool(device);
    try {
        acre::pmr_resource resource(pool);
        FAIL("device memory is refused");
    } catch (const acre::call_error &e) {
        CHECK(e.status() == ACRE_E_KIND && std::strstr(e.detail(), "device memory"));
    }
    CHECK(acre::pmr_resource::try_create(pool).status() == ACRE_E_KIND);
    CHECK(acre::pmr_resource::try_create(acre::pool_ref()).status() == ACRE_E_NULL);
}

TEST(pmr_default_pools_of_a_device) {
    acre::device device(device_name);
    acre::pmr_resource pinned(device), managed(device, ACRE_KIND_MANAGED);
    CHECK(pinned.pool() == acre::pool_ref::default_of(device, ACRE_KIND_PINNED));
    CHECK(managed.pool() == acre::pool_ref::default_of(device, ACRE_KIND_MANAGED));
    acre::result<acre::pmr_resource> same = acre::pmr_resource::try_create(device);
    CHECK(same && same->is_equal(pinned) && !same->is_equal(managed));
    CHECK(acre::pmr_resource::try_create(device, ACRE_KIND_DEVICE).status() == ACRE_E_KIND);
}

TEST(pmr_alignment_is_honoured) {
    acre::device device(device_name);
    acre::pool pool(device, ACRE_KIND_PINNED);
    acre::pmr_resource resource(pool);
    for (size_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
        void *p = resource.allocate(100, alignment);
        CHECK(reinterpret_cast<uintptr_t>(p) % alignment == 0);
        resource.deallocate(p, 100, alignment);
    }
    void *zero = resource.allocate(0);
    CHECK(zero);
    resource.deallocate(zero, 0);
    CHECK(pool.stats().live_blocks == 0);
}

TEST(pmr_same_pool_is_equal) {
    acre::device device(device_name);
    acre::pool one(device, ACRE_KIND_PINNED), two(device, ACRE_KIND_PINNED);
    acre::pmr_resource a(one), b(one), c(two);
    CHECK(a.is_equal(b) && !a.is_equal(c) && a == b && a != c);
    CHECK(!a.is_equal(*std::pmr::new_delete_resource()));
    CHECK(c.pool() == two);
    // Containers with equal resources swap without copying.
    std::pmr::vector<int> x({1, 2, 3}, &a), y({4}, &b);
    const int *data = x.data();
    y = std::move(x);
    CHECK(y.data() == data);
}

TEST(pmr_limit_throws_bad_alloc_and_the_container_is_unchanged) {
    acre::device device(device_name);
    acre::pool pool(device, ACRE_KIND_PINNED);
    pool.set_limits(0, 4 << 20);
    acre::pmr_resource resource(pool);
    std::pmr::vector<int> vector({1, 2, 3}, &resource);
    CHECK_THROWS(std::bad_alloc, vector.reserve(4 << 20));
    CHECK(vector.size() == 3 && vector[2] == 3);
    int local = 0;
    resource.deallocate(&local, 4); // a wrong free does not throw
}

int main() {
    return cpp_test::run();
}

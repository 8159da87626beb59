/* A file of test_cpp_edges that is compiled with -fno-rtti. */
#include <acre/acre.hpp>
#include <acre/cpp/pmr.hpp>

#include <memory>

#if defined(__cpp_rtti)
#error "compile this file with -fno-rtti"
#endif

std::unique_ptr<std::pmr::memory_resource> resource_without_rtti(acre_pool *pool);
bool is_equal_without_rtti(const std::pmr::memory_resource &a, const std::pmr::memory_resource &b);

std::unique_ptr<std::pmr::memory_resource> resource_without_rtti(acre_pool *pool) {
    return std::make_unique<acre::pmr_resource>(pool);
}

bool is_equal_without_rtti(const std::pmr::memory_resource &a, const std::pmr::memory_resource &b) {
    return a.is_equal(b);
}

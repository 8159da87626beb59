/* A file of test_cpp_edges that is compiled with -fno-exceptions: it has its own copies of the
 * inline functions, which abort where others throw. */
#include <acre/acre.hpp>

void without_exceptions(acre_device *device);
void without_exceptions(acre_device *device) {
    acre::pool_ref pool = acre::pool_ref::default_of(device);
    pool.deallocate(pool.allocate(100, nullptr), nullptr);
    acre::check(ACRE_OK);
}

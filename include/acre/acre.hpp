/* acre for C++17: owners, references, containers, and resources for other libraries, over the C API
 * and without cost of their own. Header only; link with acre::acre, or `pkg-config --libs acre`.
 *
 *   acre::device device;                        // the GPU, or the soft device
 *   acre::stream stream(device);
 *   acre::pool_ref pool = acre::pool_ref::default_of(device);
 *   void *p = pool.allocate(1 << 20, stream);   // throws acre::out_of_memory, a std::bad_alloc
 *   pool.deallocate(p, stream);
 *
 * Conventions: acre/cpp/error.hpp (exceptions, results) and acre/cpp/device.hpp (owners and
 * references). */
#ifndef ACRE_ACRE_HPP
#define ACRE_ACRE_HPP

#include "../acre.h"

#include "cpp/device.hpp" /* devices, streams, events */
#include "cpp/error.hpp"  /* exceptions and results */
#include "cpp/pool.hpp"   /* pools */

#endif

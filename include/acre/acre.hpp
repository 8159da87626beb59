/* acre for C++17: owners, references, containers, and resources for other libraries, over the C API
 * at the cost of the C call and a check of its status. Header only; link with acre::cpp in
 * CMake, or use `pkg-config --cflags --libs acre-cpp`.
 *
 *   acre::device device;                        // the GPU, or the soft device
 *   acre::stream stream(device);
 *   acre::pool_ref pool = acre::pool_ref::default_of(device);
 *   void *p = pool.allocate(1 << 20, stream);   // throws acre::out_of_memory, a std::bad_alloc
 *   pool.deallocate(p, stream);
 *
 * Conventions: acre/cpp/error.hpp (exceptions, results) and acre/cpp/device.hpp (owners and
 * references). A method has the name of its C call and behaves alike: the comments here say what is
 * different in C++, those of the C headers the rest.
 *
 * To be included by name: acre/cpp/heap.hpp (malloc inside kernels, as acre_heap.h is not part of
 * acre.h), acre/cpp/pmr.hpp (std::pmr), and what needs headers of other libraries:
 * acre/cpp/memory_resource.hpp (cuda::mr), acre/cpp/thrust.hpp, acre/cpp/mdspan.hpp,
 * acre/cpp/rmm.hpp. */
#ifndef ACRE_ACRE_HPP
#define ACRE_ACRE_HPP

#include "../acre.h"

#include "cpp/buffer.hpp"     /* device_buffer: bytes in stream order */
#include "cpp/device.hpp"     /* devices, streams */
#include "cpp/error.hpp"      /* exceptions and results */
#include "cpp/event.hpp"      /* events */
#include "cpp/memory.hpp"     /* single allocations of every kind of memory */
#include "cpp/oom.hpp"        /* callbacks of pools */
#include "cpp/plan.hpp"       /* plans */
#include "cpp/pool.hpp"       /* pools */
#include "cpp/range.hpp"      /* sparse ranges */
#include "cpp/share.hpp"      /* sharing with other processes */
#include "cpp/suspend.hpp"    /* memory that leaves and comes back */
#include "cpp/tag.hpp"        /* tags */
#include "cpp/trace.hpp"      /* traces */
#include "cpp/unique_ptr.hpp" /* unique_ptr for device memory and for objects in host memory */
#include "cpp/vec.hpp"        /* arrays that grow in place */
#include "cpp/vector.hpp"     /* device_vector: a container that grows in place */
#include "cpp/vm.hpp"         /* virtual memory by hand */

#endif

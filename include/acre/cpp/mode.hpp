/* The namespace inside acre that all names of the C++ API are in. Part of acre.hpp.
 *
 * With -fno-exceptions the throwing functions abort instead. A program may link files of both
 * kinds, and the linker keeps one copy of each inline function: so both kinds need names of their
 * own. The namespace is inline, and programs do not write it. */
#ifndef ACRE_CPP_MODE_HPP
#define ACRE_CPP_MODE_HPP

#if __cplusplus < 201703L
#error "acre's C++ API needs C++17: compile with -std=c++17 or later"
#endif

#if defined(__cpp_exceptions)
#define ACRE__CPP_MODE with_exceptions
#else
#define ACRE__CPP_MODE without_exceptions
#endif

#endif

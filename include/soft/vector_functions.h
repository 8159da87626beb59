/*
 * make_int2 and similar functions: construct the vectors of vector_types.h, for cuda_runtime.h.
 */
/* Names with two underscores are NVIDIA's, and programs use them.
 * NOLINTBEGIN(bugprone-reserved-identifier) */
#ifndef __VECTOR_FUNCTIONS_H__
#define __VECTOR_FUNCTIONS_H__

#include "vector_types.h"

#define ACRE_SOFT_MAKE(name, type)                                                                 \
    static __inline__ name##1 make_##name##1(type x) {                                             \
        name##1 made = {x};                                                                        \
        return made;                                                                               \
    }                                                                                              \
    static __inline__ name##2 make_##name##2(type x, type y) {                                     \
        name##2 made = {x, y};                                                                     \
        return made;                                                                               \
    }                                                                                              \
    static __inline__ name##3 make_##name##3(type x, type y, type z) {                             \
        name##3 made = {x, y, z};                                                                  \
        return made;                                                                               \
    }                                                                                              \
    ACRE_SOFT_MAKE_FOUR(name##4, type)

#define ACRE_SOFT_MAKE_FOUR(name, type)                                                            \
    static __inline__ name make_##name(type x, type y, type z, type w) {                           \
        name made = {x, y, z, w};                                                                  \
        return made;                                                                               \
    }

#define ACRE_SOFT_MAKE_WIDE(name, type)                                                            \
    ACRE_SOFT_MAKE(name, type)                                                                     \
    ACRE_SOFT_MAKE_FOUR(name##4_16a, type)                                                         \
    ACRE_SOFT_MAKE_FOUR(name##4_32a, type)

ACRE_SOFT_MAKE(char, signed char)
ACRE_SOFT_MAKE(uchar, unsigned char)
ACRE_SOFT_MAKE(short, short)
ACRE_SOFT_MAKE(ushort, unsigned short)
ACRE_SOFT_MAKE(int, int)
ACRE_SOFT_MAKE(uint, unsigned int)
ACRE_SOFT_MAKE(float, float)
ACRE_SOFT_MAKE_WIDE(long, long)
ACRE_SOFT_MAKE_WIDE(ulong, unsigned long)
ACRE_SOFT_MAKE_WIDE(longlong, long long)
ACRE_SOFT_MAKE_WIDE(ulonglong, unsigned long long)
ACRE_SOFT_MAKE_WIDE(double, double)

#undef ACRE_SOFT_MAKE
#undef ACRE_SOFT_MAKE_FOUR
#undef ACRE_SOFT_MAKE_WIDE

#endif
/* NOLINTEND(bugprone-reserved-identifier) */

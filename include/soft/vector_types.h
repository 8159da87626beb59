/*
 * CUDA's small vectors of one to four numbers, and dim3, for cuda_runtime_api.h. Sizes and
 * alignments are CUDA's: vectors of two and of four are aligned as a whole, so that a GPU loads
 * them at once; vectors of three are not.
 */
/* Names with two underscores are NVIDIA's, and programs use them.
 * NOLINTBEGIN(bugprone-reserved-identifier) */
#ifndef __VECTOR_TYPES_H__
#define __VECTOR_TYPES_H__

#define ACRE_SOFT_ALIGNED(bytes) __attribute__((aligned(bytes)))

/* The four vectors of a type: its name, the member type, the alignments of two and of four. */
#define ACRE_SOFT_VECTORS(name, type, two, four)                                                   \
    struct name##1 {                                                                               \
        type x;                                                                                    \
    };                                                                                             \
    struct name##2 {                                                                               \
        type x;                                                                                    \
        type y;                                                                                    \
    }                                                                                              \
    ACRE_SOFT_ALIGNED(two);                                                                        \
    struct name##3 {                                                                               \
        type x;                                                                                    \
        type y;                                                                                    \
        type z;                                                                                    \
    };                                                                                             \
    ACRE_SOFT_FOUR(name##4, type, four)                                                            \
    typedef struct name##1 name##1;                                                                \
    typedef struct name##2 name##2;                                                                \
    typedef struct name##3 name##3;

#define ACRE_SOFT_FOUR(name, type, bytes)                                                          \
    struct name {                                                                                  \
        type x;                                                                                    \
        type y;                                                                                    \
        type z;                                                                                    \
        type w;                                                                                    \
    } ACRE_SOFT_ALIGNED(bytes);                                                                    \
    typedef struct name name;

/* Vectors of four 8-byte numbers are aligned to 16; since CUDA 13 programs can choose. */
#define ACRE_SOFT_WIDE_VECTORS(name, type)                                                         \
    ACRE_SOFT_VECTORS(name, type, 16, 16)                                                          \
    ACRE_SOFT_FOUR(name##4_16a, type, 16)                                                          \
    ACRE_SOFT_FOUR(name##4_32a, type, 32)

ACRE_SOFT_VECTORS(char, signed char, 2, 4)
ACRE_SOFT_VECTORS(uchar, unsigned char, 2, 4)
ACRE_SOFT_VECTORS(short, short, 4, 8)
ACRE_SOFT_VECTORS(ushort, unsigned short, 4, 8)
ACRE_SOFT_VECTORS(int, int, 8, 16)
ACRE_SOFT_VECTORS(uint, unsigned int, 8, 16)
ACRE_SOFT_VECTORS(float, float, 8, 16)
ACRE_SOFT_WIDE_VECTORS(long, long)
ACRE_SOFT_WIDE_VECTORS(ulong, unsigned long)
ACRE_SOFT_WIDE_VECTORS(longlong, long long)
ACRE_SOFT_WIDE_VECTORS(ulonglong, unsigned long long)
ACRE_SOFT_WIDE_VECTORS(double, double)

#undef ACRE_SOFT_VECTORS
#undef ACRE_SOFT_FOUR
#undef ACRE_SOFT_WIDE_VECTORS
#undef ACRE_SOFT_ALIGNED

#if defined(__cplusplus) && __cplusplus >= 201103L
#define ACRE_SOFT_CONSTEXPR constexpr
#else
#define ACRE_SOFT_CONSTEXPR
#endif

/* The size of a grid or of a block; missing dimensions are 1. */
struct dim3 {
    unsigned int x;
    unsigned int y;
    unsigned int z;
#ifdef __cplusplus
    ACRE_SOFT_CONSTEXPR dim3(unsigned int from_x = 1, unsigned int from_y = 1,
                             unsigned int from_z = 1)
        : x(from_x), y(from_y), z(from_z) {
    }
    ACRE_SOFT_CONSTEXPR dim3(uint3 from) : x(from.x), y(from.y), z(from.z) {
    }
    ACRE_SOFT_CONSTEXPR operator uint3() const {
#if __cplusplus >= 201103L
        return uint3{x, y, z};
#else
        uint3 made = {x, y, z};
        return made;
#endif
    }
#endif
};
typedef struct dim3 dim3;

#undef ACRE_SOFT_CONSTEXPR

#endif
/* NOLINTEND(bugprone-reserved-identifier) */

/* The small vector types as C and C++ programs use them: created from their members, read back, and
 * as members of the program's structs. test_headers.sh compiles this file against include/soft and
 * against NVIDIA's headers, runs both programs and compares their output. */
#include <cuda_runtime.h>

#include <stddef.h>
#include <stdio.h>

#define ALIGNED(type) printf(#type " %zu %zu\n", sizeof(type), (size_t) __alignof__(type))
#define SIDE_BY_SIDE(type)                                                                         \
    do {                                                                                           \
        struct beside {                                                                            \
            char before;                                                                           \
            type it;                                                                               \
        };                                                                                         \
        ALIGNED(type);                                                                             \
        printf("beside %zu %zu\n", offsetof(struct beside, it), sizeof(struct beside));            \
    } while (0)
#define SUM1(v) ((double)(v).x)
#define SUM2(v) (SUM1(v) + 10 * (double)(v).y)
#define SUM3(v) (SUM2(v) + 100 * (double)(v).z)
#define SUM4(v) (SUM3(v) + 1000 * (double)(v).w)

#define FOUR(name)                                                                                 \
    do {                                                                                           \
        name four = make_##name(5, 6, 7, 8);                                                       \
        printf(#name " %g\n", SUM4(four));                                                         \
        SIDE_BY_SIDE(name);                                                                        \
    } while (0)
#define ALL(name)                                                                                  \
    do {                                                                                           \
        name##1 one = make_##name##1(1);                                                           \
        name##2 two = make_##name##2(1, 2);                                                        \
        name##3 three = make_##name##3(1, 2, 3);                                                   \
        printf(#name " %g %g %g\n", SUM1(one), SUM2(two), SUM3(three));                            \
        SIDE_BY_SIDE(name##1);                                                                     \
        SIDE_BY_SIDE(name##2);                                                                     \
        SIDE_BY_SIDE(name##3);                                                                     \
        FOUR(name##4);                                                                             \
    } while (0)
#define WIDE(name)                                                                                 \
    do {                                                                                           \
        ALL(name);                                                                                 \
        FOUR(name##4_16a);                                                                         \
        FOUR(name##4_32a);                                                                         \
    } while (0)

static void grids(void) {
#ifdef __cplusplus
    constexpr dim3 none, two(3, 4);
    uint3 as_vector = two;
    dim3 back = as_vector;
    printf("%u %u %u %u %u\n", none.x, none.z, two.z, as_vector.y, back.x);
#else
    dim3 two = {3, 4, 1};
    struct dim3 *same = &two;
    printf("%u %u\n", same->y, two.z);
#endif
    ALIGNED(dim3);
}

int main(void) {
    ALL(char);
    ALL(uchar);
    ALL(short);
    ALL(ushort);
    ALL(int);
    ALL(uint);
    ALL(float);
    WIDE(long);
    WIDE(ulong);
    WIDE(longlong);
    WIDE(ulonglong);
    WIDE(double);
    grids();
    return 0;
}

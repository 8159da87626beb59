/* See shim_array_bytes.h. */
#include "shim_array_bytes.h"

/* Flags of an array, and the formats with their bits for one element. */
enum {
    ARRAY_LAYERED = 0x01, /* the depth is the number of layers */
    ARRAY_CUBEMAP = 0x04, /* the depth is the number of faces */
    ARRAY_SPARSE = 0x40,
    ARRAY_DEFERRED = 0x80,
    ARRAY_BC_FIRST = 0x91, /* block-compressed: 4 x 4 elements in 8 or 16 bytes */
    ARRAY_BC_LAST = 0x9e,
    ARRAY_BC_SIDE = 4
};

/* Returns the bits of one channel; 0: not such a format. */
static unsigned channel_bits(unsigned format) {
    switch (format) {
    case 0x01: /* UNSIGNED_INT8 */
    case 0x08: /* SIGNED_INT8 */
        return 8;
    case 0x02: /* UNSIGNED_INT16 */
    case 0x09: /* SIGNED_INT16 */
    case 0x10: /* HALF */
        return 16;
    case 0x03: /* UNSIGNED_INT32 */
    case 0x0a: /* SIGNED_INT32 */
    case 0x20: /* FLOAT */
        return 32;
    default:
        return 0;
    }
}

/* Returns the bits of one element of a format that includes its channels; 0: unknown. */
static unsigned element_bits(unsigned format) {
    switch (format) {
    case 0xc0: /* UNORM_INT8X1 */
    case 0xc6: /* SNORM_INT8X1 */
        return 8;
    case 0xb0: /* NV12: one of brightness, and two of colour for four elements */
        return 12;
    case 0xc1: /* UNORM_INT8X2 */
    case 0xc7:
    case 0xc3: /* UNORM_INT16X1 */
    case 0xc9:
    case 0xa2: /* NV16 */
    case 0xa5: /* YUY2 */
        return 16;
    case 0x9f: /* P010 */
    case 0xa1: /* P016 */
    case 0xb2: /* Y444_PLANAR8 */
    case 0xb4: /* YUV444_8bit_SemiPlanar */
        return 24;
    case 0xc2: /* UNORM_INT8X4 */
    case 0xc8:
    case 0xc4: /* UNORM_INT16X2 */
    case 0xca:
    case 0x50: /* UNORM_INT_101010_2 */
    case 0xa3: /* P210 */
    case 0xa4: /* P216 */
    case 0xa6: /* Y210 */
    case 0xa7: /* Y216 */
    case 0xa8: /* AYUV */
    case 0xa9: /* Y410 */
        return 32;
    case 0xb3: /* Y444_PLANAR10 */
    case 0xb5: /* YUV444_16bit_SemiPlanar */
        return 48;
    case 0xc5: /* UNORM_INT16X4 */
    case 0xcb:
    case 0xb1: /* Y416 */
        return 64;
    default:
        return 0;
    }
}

/* BC1 and BC4 take 8 bytes for 4 x 4 elements, the others 16. */
static uint64_t compressed_bytes(unsigned format, uint64_t width, uint64_t height) {
    int is_small = (format >= 0x91 && format <= 0x92) || (format >= 0x97 && format <= 0x98);
    uint64_t columns = (width + ARRAY_BC_SIDE - 1) / ARRAY_BC_SIDE;
    uint64_t rows = (height + ARRAY_BC_SIDE - 1) / ARRAY_BC_SIDE;
    return columns * rows * (is_small ? 8 : 16);
}

static uint64_t layer_bytes(const struct shim_array3d *array, uint64_t width, uint64_t height) {
    if (array->format >= ARRAY_BC_FIRST && array->format <= ARRAY_BC_LAST)
        return compressed_bytes(array->format, width, height);
    unsigned bits = channel_bits(array->format) * array->channels;
    return (width * height * (bits ? bits : element_bits(array->format)) + 7) / 8;
}

static uint64_t at_least_1(uint64_t count) {
    return count ? count : 1;
}

uint64_t acre__array_bytes(const struct shim_array3d *array, unsigned int levels) {
    uint64_t bytes = 0, width = at_least_1(array->width), height = at_least_1(array->height),
             depth = at_least_1(array->depth);
    if (array->flags & (ARRAY_SPARSE | ARRAY_DEFERRED))
        return 0;
    for (unsigned level = 0; level < levels; level++) {
        bytes += layer_bytes(array, width, height) * depth;
        if (width == 1 && height == 1 &&
            (depth == 1 || array->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP)))
            break; /* the driver makes no more levels */
        width = at_least_1(width / 2);
        height = at_least_1(height / 2);
        if (!(array->flags & (ARRAY_LAYERED | ARRAY_CUBEMAP)))
            depth = at_least_1(depth / 2);
    }
    return bytes;
}

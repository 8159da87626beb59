/* The size of an array, computed from its descriptor. */
#ifndef ACRE_SHIM_SHIM_ARRAY_BYTES_H
#define ACRE_SHIM_SHIM_ARRAY_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* CUDA_ARRAY_DESCRIPTOR of CUDA 3.2 and later. */
struct shim_array {
    size_t width, height; /* elements; a height of 0 counts as 1 */
    unsigned int format;  /* CUarray_format */
    unsigned int channels;
};

/* CUDA_ARRAY3D_DESCRIPTOR of CUDA 3.2 and later. */
struct shim_array3d {
    size_t width, height, depth; /* elements; 0 counts as 1 */
    unsigned int format;         /* CUarray_format */
    unsigned int channels;
    unsigned int flags; /* CUDA_ARRAY3D_* */
};

/* Returns the bytes of the elements in the first `levels` levels of a mipmapped array; 1 level: of
 * an array. The driver may add padding. Returns 0 for a format that is not known, and for an array
 * to which the program maps memory itself. */
uint64_t acre__array_bytes(const struct shim_array3d *array, unsigned int levels);

#endif

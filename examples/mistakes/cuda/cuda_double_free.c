/* A mistake: two owners free the same block, and nobody checks the result.
 *
 *   acre run --errors -- cuda_double_free */
#include <stdio.h>

#include <cuda_runtime.h>

struct image {
    void *pixels;
};

static void image_end(struct image *image) {
    (void)cudaFree(image->pixels);
}

int main(void) {
    struct image first, second;
    if (cudaMalloc(&first.pixels, 640 * 480) != cudaSuccess) {
        return 2;
    }
    second = first; /* the mistake: both own the pixels now */
    image_end(&first);
    image_end(&second);
    puts("done");
    return 0;
}

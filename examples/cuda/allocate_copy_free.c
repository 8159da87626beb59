/* Allocate, copy and free, with every result checked: an array of floats to the device and back, a
 * matrix whose rows the device pads, and the errors of invalid calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include "cuda_check.h"

enum { COUNT = 1 << 20, ROWS = 37, COLUMNS = 101 };

static void *host_memory(size_t bytes) {
    void *p = malloc(bytes);
    if (p == NULL) {
        fprintf(stderr, "no %zu bytes of host memory\n", bytes);
        exit(2);
    }
    return p;
}

static void line_there_and_back(void) {
    const size_t bytes = COUNT * sizeof(float); /* 2^20 floats are 4 MiB, not 1 */
    float *sent = host_memory(bytes), *back = host_memory(bytes);
    float *first = NULL, *second = NULL;

    for (size_t i = 0; i < COUNT; i++) {
        sent[i] = (float)i / 2;
    }
    memset(back, 0, bytes);

    CHECK(cudaMalloc((void **)&first, bytes));
    CHECK(cudaMalloc((void **)&second, bytes));
    CHECK(cudaMemcpy(first, sent, bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(second, first, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(back, second, bytes, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(sent, back, bytes) == 0, "an array of floats came back");

    /* Clears the second half: the pointer is one to floats and moves by floats. */
    CHECK(cudaMemset(second + COUNT / 2, 0, bytes / 2));
    CHECK(cudaMemcpy(back, second, bytes, cudaMemcpyDefault));
    EXPECT(back[COUNT / 2 - 1] == sent[COUNT / 2 - 1] && back[COUNT / 2] == 0 &&
               back[COUNT - 1] == 0,
           "the second half of the array was cleared");

    CHECK(cudaFree(second));
    CHECK(cudaFree(first));
    free(back);
    free(sent);
}

static void matrix_with_padded_rows(void) {
    const size_t width = COLUMNS * sizeof(int); /* of a row, in bytes like all widths here */
    int(*sent)[COLUMNS] = host_memory(ROWS * width), (*back)[COLUMNS] = host_memory(ROWS * width);
    int *matrix = NULL;
    size_t pitch = 0;

    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < COLUMNS; column++) {
            sent[row][column] = 1000 * row + column;
        }
    }
    CHECK(cudaMallocPitch((void **)&matrix, &pitch, width, ROWS));
    EXPECT(pitch >= width && pitch % sizeof(int) == 0, "the pitch is large enough for a row");
    CHECK(cudaMemcpy2D(matrix, pitch, sent, width, width, ROWS, cudaMemcpyHostToDevice));
    /* Row 5, with byte arithmetic: the pitch need not be a multiple of the row. */
    CHECK(cudaMemset2D((char *)matrix + 5 * pitch, pitch, 0, width, 1));
    CHECK(cudaMemcpy2D(back, width, matrix, pitch, width, ROWS, cudaMemcpyDeviceToHost));
    memset(sent[5], 0, width);
    EXPECT(memcmp(sent, back, ROWS * width) == 0, "a matrix came back, one row cleared");
    CHECK(cudaFree(matrix));
    free(back);
    free(sent);
}

static void what_cannot_work(void) {
    void *p = NULL;
    cudaError_t error = cudaMalloc(&p, (size_t)1 << 60);

    printf("2^60 bytes: %s\n", cudaGetErrorName(error));
    /* CUDA keeps the error until it is read: peeking keeps it, getting it clears it. */
    printf("peeked: %s\n", cudaGetErrorName(cudaPeekAtLastError()));
    printf("read: %s\n", cudaGetErrorName(cudaGetLastError()));
    printf("read again: %s\n", cudaGetErrorName(cudaGetLastError()));

    CHECK(cudaMalloc(&p, 4096));
    printf("free inside a block: %s\n", cudaGetErrorName(cudaFree((char *)p + 256)));
    CHECK(cudaFree(p));
    printf("double free: %s\n", cudaGetErrorName(cudaFree(p)));
    printf("free of NULL: %s\n", cudaGetErrorName(cudaFree(NULL)));
    (void)cudaGetLastError();
}

int main(void) {
    int count = 0;

    CHECK(cudaGetDeviceCount(&count));
    EXPECT(count > 0, "there is a device");
    CHECK(cudaSetDevice(0));
    line_there_and_back();
    matrix_with_padded_rows();
    what_cannot_work();
    return wrong_count != 0;
}

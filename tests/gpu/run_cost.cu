/* What cudaMalloc and cudaFree cost a program, alone and around a kernel, and whether cudaFree
 * still waits. Compiled with any CUDA runtime and run with and without `acre run`; the area run of
 * tests/gpu/run.sh compares the two.
 *
 *   run_cost            prints us for each case
 *   run_cost first      only the start of the context and the first cudaMalloc
 *   run_cost hazard     frees memory that a kernel still writes, allocates it again for another
 *                       stream, and counts words that the late kernel has overwritten
 *   run_cost overwrite  the same without cudaFree and cudaMalloc, and so without their waits: shows
 *                       that the counting notices */
#include <chrono>
#include <cstdio>
#include <cstring>

static double now_us() {
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

__global__ void spin(long long cycles, unsigned *words, size_t count, unsigned value) {
    long long begin = clock64();
    while (clock64() - begin < cycles)
        continue;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = value;
}

__global__ void count_other(const unsigned *words, size_t count, unsigned value,
                            unsigned long long *wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        if (words[i] != value)
            atomicAdd(wrong, 1ull);
}

static void check(cudaError_t code, const char *what) {
    if (code != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
        exit(1);
    }
}

static void cost_first() {
    void *p;
    double begin = now_us();
    check(cudaFree(0), "cudaFree");
    double started = now_us();
    check(cudaMalloc(&p, (size_t)1 << 20), "cudaMalloc");
    double first = now_us();
    check(cudaFree(p), "cudaFree");
    printf("start of the context     %9.0f us\n", started - begin);
    printf("first cudaMalloc         %9.1f us\n", first - started);
}

static void cost() {
    void *p;
    const size_t bytes = (size_t)1 << 20;
    cost_first();
    double begin;
    const size_t sizes[] = {512, (size_t)1 << 20, (size_t)64 << 20};
    for (size_t size : sizes) {
        int rounds = 2000;
        for (int i = 0; i < 20; i++) {
            check(cudaMalloc(&p, size), "cudaMalloc");
            check(cudaFree(p), "cudaFree");
        }
        begin = now_us();
        for (int i = 0; i < rounds; i++) {
            check(cudaMalloc(&p, size), "cudaMalloc");
            check(cudaFree(p), "cudaFree");
        }
        printf("pair of %9zu bytes  %9.2f us\n", size, (now_us() - begin) / rounds);
    }
    int rate;
    check(cudaDeviceGetAttribute(&rate, cudaDevAttrClockRate, 0), "cudaDeviceGetAttribute");
    long long cycles = (long long)rate * 20 / 1000;
    begin = now_us();
    for (int i = 0; i < 500; i++) {
        check(cudaMalloc(&p, bytes), "cudaMalloc");
        spin<<<1, 1>>>(cycles, nullptr, 0, 0);
        check(cudaFree(p), "cudaFree");
    }
    printf("pair around a 20 us kernel%8.1f us\n", (now_us() - begin) / 500);
}

static int hazard(bool waits) {
    const size_t count = (size_t)1 << 20;
    cudaStream_t a, b;
    unsigned long long *wrong, total = 0;
    check(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaMallocHost((void **)&wrong, sizeof *wrong), "cudaMallocHost");
    int same = 0;
    for (int i = 0; i < 300; i++) {
        unsigned *old, *fresh;
        *wrong = 0;
        check(cudaMalloc((void **)&old, count * 4), "cudaMalloc");
        spin<<<64, 256, 0, a>>>(200000, old, count, 1);
        fresh = old;
        if (waits) {
            check(cudaFree(old), "cudaFree");
            check(cudaMalloc((void **)&fresh, count * 4), "cudaMalloc");
        }
        same += fresh == old;
        spin<<<64, 256, 0, b>>>(0, fresh, count, 2);
        check(cudaStreamSynchronize(a), "cudaStreamSynchronize");
        count_other<<<64, 256, 0, b>>>(fresh, count, 2, wrong);
        check(cudaStreamSynchronize(b), "cudaStreamSynchronize");
        total += *wrong;
        check(cudaFree(fresh), "cudaFree");
    }
    printf("overwritten words: %llu; the address was the same in %d of 300 rounds\n", total, same);
    return total != 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "hazard") == 0)
        return hazard(true);
    if (argc > 1 && strcmp(argv[1], "overwrite") == 0)
        return hazard(false);
    if (argc > 1 && strcmp(argv[1], "first") == 0)
        cost_first();
    else
        cost();
    return 0;
}

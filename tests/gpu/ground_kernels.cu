/* Kernels that wait for the host, write, and fault. All waits are bounded, so that a failed test
 * cannot hang the machine. */

static __device__ unsigned long long now_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

/* Waits until *flag is not 0, for at most two seconds. */
extern "C" __global__ void ground_wait(volatile unsigned long long *flag) {
    unsigned long long begin = now_ns();
    while (*flag == 0 && now_ns() - begin < 2000000000ull)
        ;
}

/* Waits until *address is not 0, for at most two seconds, then writes `value` to `count` words
 * there. */
extern "C" __global__ void ground_write_when_told(volatile unsigned long long *address,
                                                  unsigned value, unsigned long long count) {
    unsigned long long begin = now_ns();
    while (*address == 0 && now_ns() - begin < 2000000000ull)
        ;
    unsigned *words = (unsigned *)*address;
    if (!words)
        return;
    for (unsigned long long i = threadIdx.x; i < count; i += blockDim.x)
        words[i] = value;
}

extern "C" __global__ void ground_write(unsigned *words, unsigned value, unsigned long long count) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < count)
        words[i] = value + (unsigned)i;
}

/* Writes to an unmapped address. */
extern "C" __global__ void ground_fault() {
    *(volatile unsigned *)8 = 1;
}

/* Adds `value` to each word in place. */
extern "C" __global__ void ground_add(unsigned *words, unsigned value, unsigned long long count) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < count)
        words[i] += value;
}

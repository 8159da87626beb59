/* The kernel of `acre bench pool --case use`: a copy with loads and stores of 16 bytes. Each thread
 * has four loads in flight, since one does not saturate the memory. */

extern "C" __global__ void pool_copy(uint4 *to, const uint4 *from, unsigned long long count) {
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        uint4 a = from[i], b = from[i + stride], c = from[i + 2 * stride], d = from[i + 3 * stride];
        to[i] = a;
        to[i + stride] = b;
        to[i + 2 * stride] = c;
        to[i + 3 * stride] = d;
    }
    for (; i < count; i += stride) {
        to[i] = from[i];
    }
}

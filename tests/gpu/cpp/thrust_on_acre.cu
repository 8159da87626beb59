/* Thrust on acre's pools, cuda::mr's concepts under nvcc, views, and kernels with acre::heap_ptr.
 * Checks every result, prints a line for each case and "passed P failed F skipped S" at the end. */
#include <acre/cpp/memory_resource.hpp>
#include <acre/cpp/thrust.hpp>
#include <acre/cpp/mdspan.hpp>

#include <acre.h>
#include <acre_heap.hpp>

#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

static int passed, failed;

static void expect(bool is_right, const char *what) {
    std::printf("%s: %s\n", what, is_right ? "right" : "WRONG");
    ++(is_right ? passed : failed);
}

template <class T> using vector = thrust::device_vector<T, acre::allocator<T>>;

static std::vector<uint32_t> random_keys(size_t count) {
    std::mt19937 random(7);
    std::vector<uint32_t> keys(count);
    for (uint32_t &key : keys)
        key = static_cast<uint32_t>(random());
    return keys;
}

template <class Policy>
static void sorts_and_reduces(Policy policy, acre::pool_ref pool, acre::stream_ref stream,
                              const char *what) {
    const size_t count = 1 << 20;
    std::vector<uint32_t> keys = random_keys(count);
    vector<uint32_t> on_device(keys.begin(), keys.end(), acre::allocator<uint32_t>(pool, stream));
    thrust::sort(policy, on_device.begin(), on_device.end());
    uint64_t sum = thrust::reduce(policy, on_device.begin(), on_device.end(), uint64_t(0));
    cudaStreamSynchronize(stream.get());
    std::vector<uint32_t> sorted(count);
    cudaMemcpy(sorted.data(), thrust::raw_pointer_cast(on_device.data()), count * sizeof(uint32_t),
               cudaMemcpyDeviceToHost);
    std::sort(keys.begin(), keys.end());
    uint64_t right = 0;
    for (uint32_t key : keys)
        right += key;
    expect(sorted == keys && sum == right, what);
}

static void policies(acre::device_ref device) {
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    acre::pool pool(device);
    sorts_and_reduces(acre::par(pool).on(stream), pool, stream, "par on a stream");
    sorts_and_reduces(acre::par_nosync(pool).on(stream), pool, stream, "par_nosync on a stream");
    sorts_and_reduces(acre::par(pool), pool, acre::thrust_stream(), "par on the default stream");
    sorts_and_reduces(thrust::cuda::par(acre::temporary_allocator(pool, stream)).on(stream.get()),
                      pool, stream, "thrust's par with the allocator");
    expect(pool.stats().live_blocks == 0, "no block is left");
}

/* With a limit that leaves no room for it, the sort must fail: it has no other storage. */
static void storage_is_of_the_pool(acre::device_ref device) {
    acre::stream stream(device);
    acre::pool pool(device);
    vector<uint32_t> keys(1 << 22, acre::allocator<uint32_t>(pool, stream));
    pool.set_limits(0, pool.stats().live_bytes + (64 << 10));
    bool thrown = false;
    try {
        thrust::sort(acre::par(pool).on(stream), keys.begin(), keys.end());
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    expect(thrown, "the storage of a sort comes from the pool");
}

/* Each sort's storage is freed behind it and serves the next one, although none has finished. */
static void nosync_reuses_storage(acre::device_ref device) {
    const size_t count = 1 << 22;
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    acre::pool pool(device);
    vector<uint32_t> keys(count, acre::allocator<uint32_t>(pool, stream));
    auto policy = acre::par_nosync(pool).on(stream);
    uint64_t held = 0;
    for (int round = 0; round < 20; round++) {
        thrust::sequence(policy, keys.rbegin(), keys.rend());
        thrust::sort(policy, keys.begin(), keys.end());
        if (round == 0)
            held = pool.stats().held_bytes;
    }
    expect(pool.stats().held_bytes == held, "rounds of par_nosync reuse their storage");
    stream.sync();
    expect(thrust::is_sorted(policy, keys.begin(), keys.end()), "rounds of par_nosync sort");
}

static void vectors(acre::device_ref device) {
    acre::pool pool(device);
    {
        acre::allocator<int> allocator(pool);
        vector<int> one(1000, 3, allocator);
        one.push_back(4);
        one.resize(5000, 1);
        vector<int> copy = one;
        vector<int> moved = std::move(one);
        expect(thrust::reduce(copy.begin(), copy.end()) == 3000 + 4 + 3999, "a vector grows");
        expect(copy == moved && moved.get_allocator() == allocator, "copies and moves");
        expect(pool.owns(thrust::raw_pointer_cast(moved.data())), "elements are in the pool");
    }
    expect(pool.stats().live_blocks == 0, "vectors free their memory");
    vector<float> by_default(100, 2.0f); /* the default pool of the current device */
    expect(acre::pool_ref::default_of(device).owns(thrust::raw_pointer_cast(by_default.data())),
           "an allocator without arguments uses the default pool");
    bool thrown = false;
    try {
        vector<double> huge(size_t(1) << 50, acre::allocator<double>(pool));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    expect(thrown, "a vector that is too large throws std::bad_alloc");
}

using matrix = cuda::std::mdspan<float, cuda::std::dextents<int, 2>>;
using columns = cuda::std::mdspan<float, cuda::std::dextents<int, 2>, cuda::std::layout_left>;

__global__ void transpose(matrix from, columns to) {
    int row = static_cast<int>(blockIdx.x), column = static_cast<int>(threadIdx.x);
    to(row, column) = from(row, column);
}

static void views(acre::device_ref device) {
    acre::stream stream(device);
    acre::pool_ref pool = acre::pool_ref::default_of(device);
    const int rows = 37, width = 21;
    void *block = pool.allocate(rows * width * sizeof(float), stream);
    vector<float> in(rows * width);
    thrust::sequence(in.begin(), in.end());
    auto extents = cuda::std::dextents<int, 2>(rows, width);
    transpose<<<rows, width, 0, stream.get()>>>(
        acre::view(in, extents), acre::view<float, cuda::std::layout_left>(pool, block, extents));
    std::vector<float> out(rows * width);
    cudaMemcpyAsync(out.data(), block, out.size() * sizeof(float), cudaMemcpyDeviceToHost,
                    stream.get());
    stream.sync();
    bool is_right = true;
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < width; column++)
            is_right &= out[row + column * rows] == static_cast<float>(row * width + column);
    expect(is_right, "row-major to column-major views");
    pool.deallocate(block, stream);
}

struct node {
    __device__ node(int number, node *next) : number(number), next(next) {
    }
    int number;
    node *next;
};

/* Each thread makes a list whose nodes own nothing, and a node that its pointer frees. */
__global__ void lists(acre_heap_handle heap, int *sums) {
    int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    node *first = nullptr;
    for (int i = 1; i <= 10; i++) {
        acre::heap_ptr<node> made = acre::make_heap<node>(heap, i, first);
        if (!made)
            return;
        first = made.release();
    }
    int sum = 0;
    while (first) {
        acre::heap_ptr<node> freed(heap, first);
        sum += freed->number;
        first = freed->next;
    }
    sums[thread] = sum;
}

static void heaps(acre::device_ref device) {
    acre_heap *heap = nullptr;
    acre::check(acre_heap_create(device.get(), nullptr, &heap));
    acre_heap_handle handle;
    acre::check(acre_heap_get_handle(heap, &handle));
    vector<int> sums(4096, 0);
    lists<<<32, 128>>>(handle, thrust::raw_pointer_cast(sums.data()));
    expect(thrust::reduce(sums.begin(), sums.end()) == 4096 * 55, "lists of heap_ptr");
    uint64_t leaked = 1;
    acre::check(acre_heap_destroy(heap, &leaked, nullptr));
    expect(leaked == 0, "no node leaks");
}

/* Resources in kernels' host code: the concepts hold under nvcc, and a block works. */
static void resources(acre::device_ref device) {
    static_assert(acre::detail::is_stream_resource<acre::device_memory_resource,
                                                   cuda::mr::device_accessible>());
    acre::device_memory_resource resource(device);
    acre::stream stream(device);
    void *p = resource.allocate(cuda::stream_ref(stream.get()), 1 << 20);
    expect(cudaMemsetAsync(p, 1, 1 << 20, stream.get()) == cudaSuccess, "a block in stream order");
    resource.deallocate(cuda::stream_ref(stream.get()), p, 1 << 20);
    p = resource.allocate_sync(1 << 20);
    expect(cudaMemset(p, 2, 1 << 20) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess,
           "a synchronous block");
    resource.deallocate_sync(p, 1 << 20);
    acre::managed_memory_resource managed(device);
    int *shared = static_cast<int *>(managed.allocate_sync(sizeof(int)));
    *shared = 5;
    expect(*shared == 5, "managed memory on the host");
    managed.deallocate_sync(shared, sizeof(int));
}

/* Runs a group of cases. An exception ends this group alone. */
static void group(const char *name, void (*run)(acre::device_ref), acre::device_ref device) {
    try {
        run(device);
    } catch (const std::exception &error) {
        std::printf("%s: %s\n", name, error.what());
        failed++;
    }
}

int main() {
    try {
        acre_open_options options = {};
        options.struct_size = sizeof options;
        options.flags = ACRE_OPEN_NO_SOFT;
        acre::device device("cuda", options);
        group("resources", resources, device);
        group("policies", policies, device);
        group("storage", storage_is_of_the_pool, device);
        group("nosync", nosync_reuses_storage, device);
        group("vectors", vectors, device);
        group("views", views, device);
        group("heaps", heaps, device);
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
        failed++;
    }
    std::printf("passed %d failed %d skipped 0\n", passed, failed);
    return failed ? 1 : 0;
}

/* What the C++ API costs on a GPU, beside the C calls and CUDA's own. Prints a table (acre-table/1)
 * as JSON on stdout, and a line for each case on stderr. The exit status says whether all calls and
 * results were right; no time decides it.
 *
 *   cpp_figures [ROUNDS [GIB]]   ROUNDS of each case, 21 by default; arrays grow to GIB GiB, 16 by
 * default */
#include <acre/cpp/memory_resource.hpp>
#include <acre/cpp/thrust.hpp>
#include <acre/cpp/vector.hpp>

#include <acre.h>

#include <cuda.h>

#include <thrust/device_vector.h>
#include <thrust/sort.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

static void must(bool is_right, const char *what) {
    if (!is_right) {
        std::fprintf(stderr, "%s\n", what);
        std::exit(1);
    }
}
#define MUST_CUDA(call) must((call) == cudaSuccess, #call)
#define MUST_DRIVER(call) must((call) == CUDA_SUCCESS, #call)

static double now_ns() {
    return std::chrono::duration<double, std::nano>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/* One way to do the work of a case; returns the time of one round. */
struct party {
    const char *name;
    std::function<double()> round;
};

/* Medians of alternating rounds, so that a slow phase of the machine meets all parties. Every other
 * round has the reverse order: what a party leaves behind may slow down the next one. The first
 * round is a warm-up. */
static std::vector<double> medians(const std::vector<party> &parties, int rounds) {
    std::vector<std::vector<double>> times(parties.size());
    for (int round = -1; round < rounds; round++)
        for (size_t turn = 0; turn < parties.size(); turn++) {
            size_t i = round % 2 ? parties.size() - 1 - turn : turn;
            double time = parties[i].round();
            if (round >= 0)
                times[i].push_back(time);
        }
    std::vector<double> result;
    for (size_t i = 0; i < parties.size(); i++) {
        std::sort(times[i].begin(), times[i].end());
        result.push_back(times[i][times[i].size() / 2]);
        std::fprintf(stderr, "  %-36s %12.2f (%.2f - %.2f)\n", parties[i].name, result.back(),
                     times[i].front(), times[i].back());
    }
    return result;
}

/* ---- pairs of allocate and free ---- */

static const size_t pair_bytes = 64 << 10;
static const int pairs = 100000;

template <class Pair> static double time_pairs(Pair pair) {
    double begin = now_ns();
    for (int i = 0; i < pairs; i++)
        pair();
    return (now_ns() - begin) / pairs;
}

static double pairs_of_resource(acre::device_memory_resource &resource, cudaStream_t stream) {
    return time_pairs([&] {
        void *p = resource.allocate(cuda::stream_ref(stream), pair_bytes, 16);
        resource.deallocate(cuda::stream_ref(stream), p, pair_bytes, 16);
    });
}

static double pairs_of_pool(acre_pool *pool, cudaStream_t stream) {
    return time_pairs([&] {
        void *p;
        must(!acre_pool_alloc(pool, pair_bytes, 0, stream, &p), "acre_pool_alloc");
        must(!acre_pool_free(pool, p, stream), "acre_pool_free");
    });
}

static double pairs_of_cuda(cudaStream_t stream) {
    return time_pairs([&] {
        void *p;
        MUST_CUDA(cudaMallocAsync(&p, pair_bytes, stream));
        MUST_CUDA(cudaFreeAsync(p, stream));
    });
}

static double pairs_without_stream(acre::device_memory_resource &resource) {
    return time_pairs([&] {
        void *p = resource.allocate_sync(pair_bytes, 16);
        resource.deallocate_sync(p, pair_bytes, 16);
    });
}

/* On three streams: one of acre that is never captured, one of acre that may be, for which acre
 * asks the driver at each call, and one of the program's own. */
static std::vector<double> figure_pairs(acre::device_ref device, int rounds) {
    acre::stream never(device, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE);
    acre::stream maybe(device, ACRE_STREAM_NON_BLOCKING);
    cudaStream_t own;
    MUST_CUDA(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    acre::device_memory_resource resource(device);
    acre_pool *pool = resource.pool().get();
    std::fprintf(stderr, "allocate and free 64 KiB, ns\n");
    auto result = medians(
        {{"memory_resource", [&] { return pairs_of_resource(resource, never.get()); }},
         {"acre_pool_alloc, acre_pool_free", [&] { return pairs_of_pool(pool, never.get()); }},
         {"cudaMallocAsync, cudaFreeAsync", [&] { return pairs_of_cuda(never.get()); }},
         {"memory_resource, synchronous", [&] { return pairs_without_stream(resource); }},
         {"memory_resource, may be captured",
          [&] { return pairs_of_resource(resource, maybe.get()); }},
         {"C, may be captured", [&] { return pairs_of_pool(pool, maybe.get()); }},
         {"memory_resource, CUDA's stream", [&] { return pairs_of_resource(resource, own); }},
         {"C, CUDA's stream", [&] { return pairs_of_pool(pool, own); }}},
        rounds);
    MUST_CUDA(cudaStreamSynchronize(own));
    must(!acre_stream_retire(device.get(), own), "acre_stream_retire");
    MUST_CUDA(cudaStreamDestroy(own));
    return result;
}

/* ---- Thrust ---- */

template <class Policy>
static double time_sort(Policy policy, const thrust::device_vector<uint32_t> &keys,
                        thrust::device_vector<uint32_t> &scratch, cudaStream_t stream) {
    thrust::copy(keys.begin(), keys.end(), scratch.begin());
    MUST_CUDA(cudaDeviceSynchronize());
    double begin = now_ns();
    thrust::sort(policy, scratch.begin(), scratch.end());
    MUST_CUDA(cudaStreamSynchronize(stream));
    return (now_ns() - begin) / 1e3;
}

static std::vector<double> figure_sort(acre::device_ref device, int rounds) {
    const size_t count = 10000000;
    std::vector<uint32_t> random(count);
    uint32_t state = 1;
    for (uint32_t &key : random)
        key = state = state * 1664525u + 1013904223u;
    thrust::device_vector<uint32_t> keys(random.begin(), random.end()), scratch(count);
    acre::stream own(device, ACRE_STREAM_NON_BLOCKING);
    cudaStream_t stream = own.get();
    acre::pool_ref pool = acre::pool_ref::default_of(device);
    std::fprintf(stderr, "thrust::sort of 10^7 uint32, us\n");
    auto result = medians(
        {{"acre::par",
          [&] { return time_sort(acre::par(pool).on(stream), keys, scratch, stream); }},
         {"thrust::cuda::par",
          [&] { return time_sort(thrust::cuda::par.on(stream), keys, scratch, stream); }},
         {"acre::par_nosync",
          [&] { return time_sort(acre::par_nosync(pool).on(stream), keys, scratch, stream); }}},
        rounds);
    std::sort(random.begin(), random.end());
    std::vector<uint32_t> sorted(count);
    MUST_CUDA(cudaMemcpy(sorted.data(), thrust::raw_pointer_cast(scratch.data()),
                         count * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    must(sorted == random, "thrust::sort sorts");
    return result;
}

/* ---- arrays that grow ---- */

static const size_t step_bytes = 256u << 20;

/* The driver clears released memory in the background, and whoever creates memory at once waits for
 * that: 3 ms a GiB on an H200. */
static void settle(size_t bytes) {
    std::this_thread::sleep_for(std::chrono::milliseconds(6 * (bytes >> 30)));
}

static acre_vec_options grow_options(size_t steps) {
    acre_vec_options options = {};
    options.struct_size = sizeof options;
    options.address_bytes = steps * step_bytes;
    options.chunk_bytes = step_bytes; /* as the bare calls: one chunk for each step */
    return options;
}

static double grow_vector(acre::device_ref device, acre::stream_ref stream, size_t steps) {
    double time = 0;
    {
        acre::device_vector<char> vector(device, stream, grow_options(steps));
        double begin = now_ns();
        for (size_t i = 1; i <= steps; i++)
            vector.resize(i * step_bytes);
        time = now_ns() - begin;
        MUST_CUDA(cudaMemset(vector.end() - 1, 1, 1));
        must(vector.ref().info().copied_bytes == 0, "a vector grows in place");
    }
    device.trim(); /* the next round creates its chunks again, as the bare calls do */
    settle(steps * step_bytes);
    return time / 1e6;
}

static double grow_vec(acre::device_ref device, acre::stream_ref stream, size_t steps) {
    acre_vec_options options = grow_options(steps);
    acre_vec *vec = nullptr;
    acre::check(acre_vec_create(device.get(), 1, &options, &vec));
    double begin = now_ns();
    for (size_t i = 1; i <= steps; i++)
        must(!acre_vec_resize(vec, i * step_bytes, stream.get()), "acre_vec_resize");
    double time = now_ns() - begin;
    MUST_CUDA(cudaMemset(static_cast<char *>(acre_vec_data(vec)) + steps * step_bytes - 1, 1, 1));
    acre::check(acre_vec_destroy(vec, stream.get()));
    device.trim();
    settle(steps * step_bytes);
    return time / 1e6;
}

static double grow_bare(int ordinal, size_t steps) {
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base = 0;
    std::vector<CUmemGenericAllocationHandle> chunks(steps);
    MUST_DRIVER(cuMemAddressReserve(&base, steps * step_bytes, 0, 0, 0));
    double begin = now_ns();
    for (size_t i = 0; i < steps; i++) {
        CUdeviceptr at = base + i * step_bytes;
        MUST_DRIVER(cuMemCreate(&chunks[i], step_bytes, &prop, 0));
        MUST_DRIVER(cuMemMap(at, step_bytes, 0, chunks[i], 0));
        MUST_DRIVER(cuMemSetAccess(at, step_bytes, &access, 1));
    }
    double time = now_ns() - begin;
    MUST_DRIVER(cuMemsetD8(base + steps * step_bytes - 1, 1, 1));
    MUST_DRIVER(cuCtxSynchronize());
    for (size_t i = 0; i < steps; i++) {
        MUST_DRIVER(cuMemUnmap(base + i * step_bytes, step_bytes));
        MUST_DRIVER(cuMemRelease(chunks[i]));
    }
    MUST_DRIVER(cuMemAddressFree(base, steps * step_bytes));
    settle(steps * step_bytes);
    return time / 1e6;
}

/* Waits once for each growth, as acre bench grow does: the pool then releases the old arrays.
 * Without that it may hold all of them, more than the device has. */
static double grow_copying(cudaStream_t stream, size_t steps) {
    char *data = nullptr;
    double begin = now_ns();
    for (size_t i = 1; i <= steps; i++) {
        char *larger = nullptr;
        MUST_CUDA(cudaMallocAsync(reinterpret_cast<void **>(&larger), i * step_bytes, stream));
        if (data) {
            MUST_CUDA(cudaMemcpyAsync(larger, data, (i - 1) * step_bytes, cudaMemcpyDeviceToDevice,
                                      stream));
            MUST_CUDA(cudaFreeAsync(data, stream));
        }
        data = larger;
        MUST_CUDA(cudaStreamSynchronize(stream));
    }
    double time = now_ns() - begin;
    MUST_CUDA(cudaFreeAsync(data, stream));
    MUST_CUDA(cudaStreamSynchronize(stream));
    cudaMemPool_t pool;
    int device = 0;
    MUST_CUDA(cudaGetDevice(&device));
    MUST_CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
    MUST_CUDA(cudaMemPoolTrimTo(pool, 0));
    settle(2 * steps * step_bytes); /* the last two arrays */
    return time / 1e6;
}

/* An array takes longer than the other cases. */
static int rounds_of_grow(int rounds) {
    return (rounds + 2) / 3;
}

static std::vector<double> figure_grow(acre::device_ref device, int rounds, size_t gib) {
    acre::stream stream(device, ACRE_STREAM_NON_BLOCKING);
    const size_t steps = gib * 4;
    const int ordinal = static_cast<int>(device.info().ordinal);
    std::fprintf(stderr, "an array grows to %zu GiB in steps of 256 MiB, ms\n", gib);
    return medians(
        {{"acre::device_vector", [&] { return grow_vector(device, stream, steps); }},
         {"acre_vec_resize", [&] { return grow_vec(device, stream, steps); }},
         {"cuMemCreate, cuMemMap, cuMemSetAccess", [&] { return grow_bare(ordinal, steps); }},
         {"cudaMallocAsync and copy", [&] { return grow_copying(stream.get(), steps); }}},
        rounds);
}

/* ---- the table ---- */

static void print_bar(const char *what, double is, double bar) {
    std::fprintf(stderr, "%s: %.3g, bar %.3g: %s\n", what, is, bar, is <= bar ? "met" : "missed");
}

static void print_table(acre::device_ref device, int rounds, size_t gib,
                        const std::vector<double> &pair, const std::vector<double> &sort,
                        const std::vector<double> &grow) {
    acre_device_info info = device.info();
    char date[16];
    std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
    const char *commit = std::getenv("COMMIT");
    std::printf("{\n  \"schema\": \"acre-table/1\",\n"
                "  \"device\": \"%s, CUDA %u.%u\",\n  \"host\": \"%u cores\",\n"
                "  \"date\": \"%s\",\n  \"commit\": \"%s\",\n"
                "  \"command\": \"tests/gpu/run.sh cpp\",\n",
                info.name, info.driver_version / 1000, info.driver_version % 1000 / 10,
                std::thread::hardware_concurrency(), date, commit ? commit : "");
    std::printf(
        "  \"note\": \"Medians of %d alternating rounds after a warm-up; %d for the array.\",\n"
        "  \"columns\": [\"case\", \"acre, C++\", \"acre, C\", \"CUDA\"],\n  \"rows\": [\n",
        rounds, rounds_of_grow(rounds));
    std::printf("    [\"allocate and free 64 KiB, ns\", %.1f, %.1f, %.1f],\n", pair[0], pair[1],
                pair[2]);
    std::printf("    [\"the same, the stream may be captured, ns\", %.1f, %.1f, \"\"],\n", pair[4],
                pair[5]);
    std::printf("    [\"the same, a stream of CUDA, ns\", %.1f, %.1f, \"\"],\n", pair[6], pair[7]);
    std::printf("    [\"the same, synchronous, ns\", %.1f, \"\", \"\"],\n", pair[3]);
    std::printf("    [\"thrust::sort of 10^7 uint32, us\", %.1f, \"\", %.1f],\n", sort[0], sort[1]);
    std::printf("    [\"the same with par_nosync, us\", %.1f, \"\", \"\"],\n", sort[2]);
    std::printf(
        "    [\"an array grows to %zu GiB in steps of 256 MiB, ms; CUDA: cuMemCreate, cuMemMap\", "
        "%.2f, %.2f, %.2f],\n",
        gib, grow[0], grow[1], grow[2]);
    std::printf(
        "    [\"the same, ms; CUDA: cudaMallocAsync and copy\", %.2f, %.2f, %.2f]\n  ]\n}\n",
        grow[0], grow[1], grow[3]);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 21;
    size_t gib = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 16;
    must(rounds > 0 && gib > 0, "usage: cpp_figures [ROUNDS [GIB]]");
    try {
        acre_open_options options = {};
        options.struct_size = sizeof options;
        options.flags = ACRE_OPEN_NO_SOFT;
        acre::device device("cuda", options);
        MUST_CUDA(cudaFree(nullptr)); /* makes the device's context current */
        std::vector<double> pair = figure_pairs(device, rounds);
        std::vector<double> sort = figure_sort(device, rounds);
        std::vector<double> grow = figure_grow(device, rounds_of_grow(rounds), gib);
        print_bar("a pair of memory_resource, ns", pair[0], 30);
        print_bar("a pair of memory_resource above the C calls, ns", pair[0] - pair[1], 2);
        print_bar("thrust::sort, share of the time with cudaMalloc", sort[0] / sort[1], 0.9);
        print_bar("acre::device_vector, share of the time of the bare calls", grow[0] / grow[2],
                  1.05);
        print_table(device, rounds, gib, pair, sort, grow);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

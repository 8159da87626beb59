// A pool of requests: a program requests the host and device memory of its next round, gets all of
// it from two arenas, uses it, and releases all of it together.
//
//   wantHost(&p, n), wantDevice(&p, n)   n elements; satisfy writes p, which is NULL until then
//   satisfy()       places the requests since the last call, all or none
//   commit()        completes the round: further requests are refused
//   releaseAll(s)   releases everything, behind the work queued on stream s
//
// Three bugs are common in such pools and avoided here. Requests are padded to 256 bytes before
// they are summed, so the promised memory exists. Requests that could not be satisfied are dropped,
// so they do not affect the next round. The memory of a round is reused only when that round's work
// is done, which an event tells.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#include "cuda_check.h"

class WishPool {
  public:
    static constexpr size_t alignment = 256;

    enum class Answer { satisfied, too_large, committed };

    WishPool(size_t hostBytes, size_t deviceBytes)
        : host_(padded(hostBytes)), device_(padded(deviceBytes)) {
        CHECK(cudaMallocHost(&host_.base, host_.bytes));
        CHECK(cudaMalloc(&device_.base, device_.bytes));
        CHECK(cudaEventCreateWithFlags(&lastRound_, cudaEventDisableTiming));
    }

    ~WishPool() {
        CHECK(cudaEventSynchronize(lastRound_));
        CHECK(cudaEventDestroy(lastRound_));
        CHECK(cudaFree(device_.base));
        CHECK(cudaFreeHost(host_.base));
    }

    WishPool(const WishPool &) = delete;
    WishPool &operator=(const WishPool &) = delete;

    template <class T> Answer wantHost(T **pointer, size_t count) {
        return want(host_, pointer, count);
    }

    template <class T> Answer wantDevice(T **pointer, size_t count) {
        return want(device_, pointer, count);
    }

    Answer satisfy() {
        if (host_.wanted > host_.bytes - host_.used ||
            device_.wanted > device_.bytes - device_.used) {
            host_.forget();
            device_.forget();
            return Answer::too_large;
        }
        // Work of the last round may still use the first memory of this round.
        if (host_.used == 0 && device_.used == 0) {
            CHECK(cudaEventSynchronize(lastRound_));
        }
        host_.place();
        device_.place();
        return Answer::satisfied;
    }

    Answer commit() {
        Answer answer = satisfy();
        isCommitted_ = answer == Answer::satisfied;
        return answer;
    }

    void releaseAll(cudaStream_t stream) {
        CHECK(cudaEventRecord(lastRound_, stream));
        host_.release();
        device_.release();
        isCommitted_ = false;
    }

    size_t hostUsed() const {
        return host_.used;
    }
    size_t deviceUsed() const {
        return device_.used;
    }
    size_t deviceFree() const {
        return device_.bytes - device_.used;
    }

  private:
    struct Wish {
        void *pointer; // address of a pointer of the program, of any type
        size_t bytes;  // with padding
    };

    struct Arena {
        explicit Arena(size_t size) : bytes(size) {
        }

        void place() {
            for (const Wish &wish : wishes) {
                void *address = base + used;
                std::memcpy(wish.pointer, &address, sizeof address); // it may point to any type
                used += wish.bytes;
            }
            forget();
        }
        void forget() {
            wishes.clear();
            wanted = 0;
        }
        void release() {
            forget();
            used = 0;
        }

        char *base = nullptr;
        size_t bytes, used = 0, wanted = 0;
        std::vector<Wish> wishes;
    };

    static constexpr size_t padded(size_t bytes) {
        return (bytes + alignment - 1) / alignment * alignment;
    }

    template <class T> Answer want(Arena &arena, T **pointer, size_t count) {
        *pointer = nullptr;
        if (isCommitted_) {
            return Answer::committed;
        }
        // Checked before sizes are multiplied or summed, since these could overflow.
        if (count > arena.bytes / sizeof(T) ||
            padded(count * sizeof(T)) > arena.bytes - arena.wanted) {
            return Answer::too_large;
        }
        Wish wish = {pointer, padded(count * sizeof(T))};
        arena.wishes.push_back(wish);
        arena.wanted += wish.bytes;
        return Answer::satisfied;
    }

    Arena host_, device_;
    cudaEvent_t lastRound_ = nullptr;
    bool isCommitted_ = false;
};

struct Particles {
    float *positions, *velocities;
    unsigned char *alive;
};

static const size_t PARTICLES = 100003; // so that no size is a multiple of 256

static bool isAligned(const void *p) {
    return reinterpret_cast<uintptr_t>(p) % WishPool::alignment == 0;
}

static void wish(WishPool &pool, Particles *on_device, float **staging) {
    pool.wantDevice(&on_device->positions, 3 * PARTICLES);
    pool.wantDevice(&on_device->velocities, 3 * PARTICLES);
    pool.wantDevice(&on_device->alive, PARTICLES);
    pool.wantHost(staging, 3 * PARTICLES);
}

static bool work(const Particles &particles, float *staging, cudaStream_t stream, int round) {
    const size_t bytes = 3 * PARTICLES * sizeof(float);
    std::vector<float> back(3 * PARTICLES);
    unsigned char last = 0;

    for (size_t i = 0; i < 3 * PARTICLES; i++) {
        staging[i] = static_cast<float>(i) + static_cast<float>(round);
    }
    CHECK(cudaMemcpyAsync(particles.positions, staging, bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(particles.velocities, 0, bytes, stream));
    CHECK(cudaMemsetAsync(particles.alive, 1, PARTICLES, stream));
    CHECK(cudaMemcpyAsync(back.data(), particles.positions, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(
        cudaMemcpyAsync(&last, particles.alive + PARTICLES - 1, 1, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    bool is_right = std::memcmp(back.data(), staging, bytes) == 0 && last == 1;

    // Work that is still queued when the round ends: the next round must not overwrite `staging`
    // before this copy has read it.
    CHECK(cudaMemcpyAsync(particles.velocities, staging, bytes, cudaMemcpyHostToDevice, stream));
    return is_right;
}

static void rounds(WishPool &pool, cudaStream_t stream) {
    using Answer = WishPool::Answer;
    float *first = nullptr;

    for (int round = 0; round < 3; round++) {
        Particles particles;
        float *staging, *more;

        std::printf("round %d\n", round);
        wish(pool, &particles, &staging);
        EXPECT(particles.positions == nullptr && staging == nullptr, "no address before satisfy");
        EXPECT(pool.satisfy() == Answer::satisfied, "the requests were satisfied");
        EXPECT(isAligned(particles.positions) && isAligned(particles.velocities) &&
                   isAligned(particles.alive) && isAligned(staging),
               "everything is aligned");

        // A request that does not fit is dropped; satisfied requests stay.
        size_t used = pool.deviceUsed();
        pool.wantDevice(&more, (pool.deviceFree() + 4) / sizeof(float));
        EXPECT(pool.satisfy() == Answer::too_large && more == nullptr && pool.deviceUsed() == used,
               "a request that is too large changes nothing");

        EXPECT(pool.commit() == Answer::satisfied, "committed");
        EXPECT(pool.wantDevice(&more, 1) == Answer::committed, "no requests after commit");
        if (round == 0) {
            std::printf("%zu bytes of host memory, %zu of device memory\n", pool.hostUsed(),
                        pool.deviceUsed());
            first = particles.positions;
        }
        EXPECT(particles.positions == first, "the round has the memory of the first round");
        EXPECT(work(particles, staging, stream, round), "the results are right");
        pool.releaseAll(stream);
        EXPECT(pool.deviceUsed() == 0 && pool.hostUsed() == 0, "all of it was released");
    }
}

int main() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
        WishPool pool(2 << 20, 4 << 20);
        rounds(pool, stream);
        float *p;
        EXPECT(pool.wantDevice(&p, SIZE_MAX) == WishPool::Answer::too_large && p == nullptr,
               "a request whose size overflows is refused");
    }
    CHECK(cudaStreamDestroy(stream));
    return wrong_count != 0;
}

// A pool that allocates large blocks with cudaMalloc and divides them into pieces, with free: a
// freed piece merges with the free pieces beside it, and a block without live pieces can be
// released. One thread and one stream use the pool: a freed piece is reused only for work that is
// queued behind the work that used it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <vector>

#include <cuda_runtime.h>

#include "cuda_check.h"

class BlockListPool {
  public:
    static constexpr size_t alignment = 256;

    explicit BlockListPool(size_t blockBytes) : blockBytes_(padded(blockBytes)) {
    }

    ~BlockListPool() {
        for (Block &block : blocks_) {
            CHECK(cudaFree(block.base));
        }
    }

    BlockListPool(const BlockListPool &) = delete;
    BlockListPool &operator=(const BlockListPool &) = delete;

    // Allocates a piece; nullptr if the device has no more memory, or for 0 bytes.
    void *allocate(size_t bytes) {
        if (bytes == 0 || bytes > SIZE_MAX - alignment) {
            return nullptr;
        }
        bytes = padded(bytes);
        for (Block &block : blocks_) {
            if (char *p = take(block, bytes)) {
                return p;
            }
        }
        Block *fresh = add(std::max(bytes, blockBytes_));
        return fresh ? take(*fresh, bytes) : nullptr;
    }

    // Frees a piece. Returns false, without a change, for any other address and for a double free.
    bool free(void *p) {
        auto piece = live_.find(static_cast<char *>(p));
        if (piece == live_.end()) {
            return false;
        }
        give(*piece->second.block, piece->first, piece->second.bytes);
        live_.erase(piece);
        return true;
    }

    // Releases blocks without live pieces. cudaFree waits for the device's work.
    size_t trim() {
        size_t given = 0;
        for (auto block = blocks_.begin(); block != blocks_.end();) {
            if (block->used == 0) {
                CHECK(cudaFree(block->base));
                given += block->bytes;
                block = blocks_.erase(block);
            } else {
                ++block;
            }
        }
        return given;
    }

    size_t usedBytes() const {
        size_t bytes = 0;
        for (const Block &block : blocks_) {
            bytes += block.used;
        }
        return bytes;
    }
    size_t heldBytes() const {
        size_t bytes = 0;
        for (const Block &block : blocks_) {
            bytes += block.bytes;
        }
        return bytes;
    }
    size_t blockCount() const {
        return blocks_.size();
    }

    // Checks that every byte of a block is free or in use, and that free pieces are not adjacent.
    bool isSound() const {
        for (const Block &block : blocks_) {
            size_t unused = 0;
            const char *last = nullptr;
            for (const auto &piece : block.free) {
                if (piece.first == last) {
                    return false;
                }
                last = piece.first + piece.second;
                unused += piece.second;
            }
            if (unused + block.used != block.bytes) {
                return false;
            }
        }
        return true;
    }

  private:
    struct Block {
        char *base;
        size_t bytes, used;
        std::map<char *, size_t> free; // pieces by address; no two are adjacent
    };

    struct Piece {
        Block *block; // elements of a list do not move
        size_t bytes;
    };

    static constexpr size_t padded(size_t bytes) {
        return (bytes + alignment - 1) / alignment * alignment;
    }

    Block *add(size_t bytes) {
        char *base = nullptr;
        if (cudaMalloc(&base, bytes) != cudaSuccess) {
            (void)cudaGetLastError(); // reported by nullptr, not to a later caller
            return nullptr;
        }
        blocks_.push_back(Block{base, bytes, 0, {{base, bytes}}});
        return &blocks_.back();
    }

    // Takes the first free piece that is large enough; the rest of it stays free.
    char *take(Block &block, size_t bytes) {
        for (auto piece = block.free.begin(); piece != block.free.end(); ++piece) {
            if (piece->second < bytes) {
                continue;
            }
            char *p = piece->first;
            size_t rest = piece->second - bytes;
            block.free.erase(piece);
            if (rest > 0) {
                block.free.emplace(p + bytes, rest);
            }
            block.used += bytes;
            live_.emplace(p, Piece{&block, bytes});
            return p;
        }
        return nullptr;
    }

    void give(Block &block, char *p, size_t bytes) {
        block.used -= bytes;
        auto next = block.free.lower_bound(p);
        if (next != block.free.end() && p + bytes == next->first) {
            bytes += next->second;
            next = block.free.erase(next);
        }
        if (next != block.free.begin()) {
            auto before = std::prev(next);
            if (before->first + before->second == p) {
                before->second += bytes;
                return;
            }
        }
        block.free.emplace(p, bytes);
    }

    size_t blockBytes_;
    std::list<Block> blocks_;
    std::map<char *, Piece> live_;
};

// A linear congruential generator: the same numbers on every machine.
static uint32_t nextRandom(uint32_t &state) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

struct Used {
    unsigned char *p;
    size_t bytes;
    unsigned char mark;
};

static bool hasItsMark(const Used &used, cudaStream_t stream) {
    std::vector<unsigned char> back(used.bytes);
    CHECK(cudaMemcpyAsync(back.data(), used.p, used.bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return std::count(back.begin(), back.end(), used.mark) ==
           static_cast<std::ptrdiff_t>(used.bytes);
}

// Allocates and frees pieces of random sizes. Each piece must keep the bytes that were written to
// it.
static void churn(BlockListPool &pool, cudaStream_t stream) {
    std::vector<Used> live;
    uint32_t state = 12345;
    bool all_marks = true, all_sound = true;

    for (int step = 0; step < 600; step++) {
        if (live.size() < 40 && nextRandom(state) % 3 != 0) {
            size_t bytes = 1 + nextRandom(state) % 60000;
            Used used = {static_cast<unsigned char *>(pool.allocate(bytes)), bytes,
                         static_cast<unsigned char>(step)};
            if (used.p == nullptr) {
                std::fprintf(stderr, "no memory\n");
                std::exit(2);
            }
            CHECK(cudaMemsetAsync(used.p, used.mark, used.bytes, stream));
            live.push_back(used);
        } else if (!live.empty()) {
            size_t which = nextRandom(state) % live.size();
            all_marks = all_marks && hasItsMark(live[which], stream);
            all_sound = all_sound && pool.free(live[which].p) && pool.isSound();
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
        }
    }
    EXPECT(all_marks, "every piece kept its bytes");
    EXPECT(all_sound, "free pieces were merged");
    std::printf("%zu pieces live, %zu bytes of %zu in %zu blocks\n", live.size(), pool.usedBytes(),
                pool.heldBytes(), pool.blockCount());
    bool all_freed = true;
    for (const Used &used : live) {
        all_freed = pool.free(used.p) && all_freed;
    }
    EXPECT(all_freed, "all of them were freed");
}

int main() {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    {
        BlockListPool pool(512 << 10);
        churn(pool, stream);
        EXPECT(pool.usedBytes() == 0 && pool.isSound(), "nothing is in use");

        // Small pieces have merged again, and a piece larger than a block gets its own block.
        void *whole = pool.allocate(512 << 10), *large = pool.allocate(3 << 20);
        EXPECT(whole != nullptr && large != nullptr && pool.heldBytes() >= (7 << 19),
               "large pieces can be allocated");
        EXPECT(!pool.free(static_cast<char *>(whole) + 256), "a free inside a piece fails");
        EXPECT(pool.free(whole), "the free of the piece succeeds");
        EXPECT(!pool.free(whole), "a double free fails");
        EXPECT(pool.allocate(static_cast<size_t>(1) << 60) == nullptr &&
                   cudaGetLastError() == cudaSuccess,
               "a request larger than any device fails");
        size_t held = pool.heldBytes();
        EXPECT(pool.trim() == held - (3 << 20) && pool.heldBytes() == 3 << 20,
               "unused blocks were released");
        EXPECT(pool.free(large), "the last piece was freed");
    }
    CHECK(cudaStreamDestroy(stream));
    return wrong_count != 0;
}

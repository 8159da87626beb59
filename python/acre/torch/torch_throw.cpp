/* The part of acre.torch that must be C++: compiled against the installed PyTorch by _throw.py.
 *
 * PyTorch takes NULL from an allocator for memory. So an allocation that fails throws PyTorch's own
 * exception, which becomes torch.OutOfMemoryError. And PyTorch passes a std::function when a
 * capture begins. Everything else is in libacre_torch.so, whose functions _throw.py puts into the
 * table before PyTorch calls anything here. */
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

struct CUstream_st;
using stream_type = CUstream_st *;
using pool_id = std::pair<unsigned long long, unsigned long long>; /* c10::cuda::MempoolId_t */
using filter_type = std::function<bool(stream_type)>;

extern "C" {

/* The order is that of TABLE in _throw.py. */
struct acre_torch_table {
    void *(*alloc)(std::size_t bytes, int device, stream_type stream);
    void (*free)(void *p, std::size_t bytes, int device, stream_type stream);
    int (*failure)(char *text, std::size_t size);
    void (*begin_pool)(int device, std::uint64_t first, std::uint64_t second,
                       int (*filter)(void *user, stream_type stream), void *user,
                       void (*drop)(void *user));
    void (*end_pool)(int device, std::uint64_t first, std::uint64_t second);
    void (*release_pool)(int device, std::uint64_t first, std::uint64_t second);
};

acre_torch_table acre_torch_functions;
}

static const acre_torch_table &plug = acre_torch_functions;

[[noreturn]] static void throw_failure() {
    std::vector<char> text(1 << 16);
    const int kind = plug.failure(text.data(), text.size());
    const c10::SourceLocation where = {__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)};
    if (kind == 1)
        throw c10::OutOfMemoryError(where, std::string(text.data()));
    throw c10::Error(where, std::string(text.data()));
}

/* PyTorch's filter throws if it cannot query the stream. Its caller is C code that holds a lock. */
static int filter_call(void *user, stream_type stream) noexcept {
    try {
        return (*static_cast<filter_type *>(user))(stream);
    } catch (...) {
        return 0; /* a stream without a filter shares no memory, which is safe */
    }
}

static void filter_drop(void *user) {
    delete static_cast<filter_type *>(user);
}

extern "C" {

void *acre_torch_throwing_alloc(std::size_t bytes, int device, stream_type stream) {
    void *p = plug.alloc(bytes, device, stream);
    if (p == nullptr && bytes != 0)
        throw_failure();
    return p;
}

void acre_torch_throwing_free(void *p, std::size_t bytes, int device, stream_type stream) {
    plug.free(p, bytes, device, stream);
}

void acre_torch_throwing_begin(int device, pool_id pool, filter_type filter) {
    plug.begin_pool(device, pool.first, pool.second, filter_call,
                    new filter_type(std::move(filter)), filter_drop);
}

void acre_torch_throwing_end(int device, pool_id pool) {
    plug.end_pool(device, pool.first, pool.second);
}

void acre_torch_throwing_release(int device, pool_id pool) {
    plug.release_pool(device, pool.first, pool.second);
}
}

/* libc10.so of the fake torch: calls an allocator as PyTorch's C++ code does, and turns exceptions
 * into numbers that ctypes can return. */
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <utility>

namespace c10 {

Error::Error(SourceLocation, std::string said) : text(std::move(said)) {
}

Error::~Error() = default;

const char *Error::what() const noexcept {
    return text.c_str();
}

} // namespace c10

using pool_id = std::pair<unsigned long long, unsigned long long>;

extern "C" {

/* Returns 0, 1 for OutOfMemoryError and 2 for other errors, with their text. */
int fake_alloc(void *(*fn)(std::size_t, int, void *), std::size_t bytes, int device, void *stream,
               void **p, char *text, std::size_t size) {
    try {
        *p = fn(bytes, device, stream);
        return 0;
    } catch (const c10::OutOfMemoryError &error) {
        std::snprintf(text, size, "%s", error.what());
        return 1;
    } catch (const c10::Error &error) {
        std::snprintf(text, size, "%s", error.what());
        return 2;
    }
}

void fake_begin(void (*fn)(int, pool_id, std::function<bool(void *)>), int device,
                unsigned long long first, unsigned long long second, int (*filter)(void *)) {
    fn(device, {first, second}, [filter](void *stream) {
        const int result = filter(stream);
        if (result < 0)
            throw c10::Error({__func__, __FILE__, __LINE__}, "the filter cannot query the stream");
        return result != 0;
    });
}

void fake_with_pool(void (*fn)(int, pool_id), int device, unsigned long long first,
                    unsigned long long second) {
    fn(device, {first, second});
}
}

/* Copies with non-temporal stores: see stream_copy.h. */
#include "base/stream_copy.h"

#include <stdint.h>
#include <string.h>

/* The thread sanitizer checks a memcpy as one access, and every 16 bytes of the loop. */
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__) && !defined(ACRE_SANITIZE_tsan)
#include <emmintrin.h>

enum { STREAM_LINE = 64, STREAM_LEAST = 4096 };

void acre__stream_copy(void *to, const void *from, size_t bytes) {
    char *out = to;
    const char *in = from;
    if (bytes < STREAM_LEAST) {
        memcpy(to, from, bytes);
        return;
    }
    size_t head = (size_t)(-(uintptr_t)out & (STREAM_LINE - 1));
    memcpy(out, in, head);
    out += head;
    in += head;
    bytes -= head;
    for (; bytes >= STREAM_LINE; bytes -= STREAM_LINE, out += STREAM_LINE, in += STREAM_LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)in);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(in + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(in + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(in + 48));
        _mm_stream_si128((__m128i *)(void *)out, a);
        _mm_stream_si128((__m128i *)(void *)(out + 16), b);
        _mm_stream_si128((__m128i *)(void *)(out + 32), c);
        _mm_stream_si128((__m128i *)(void *)(out + 48), d);
    }
    memcpy(out, in, bytes);
    _mm_sfence(); /* orders the copy before the stores that report it done */
}

#else

void acre__stream_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

#endif

/* The copy that bypasses the caches behaves like memcpy for every offset and length with a special
 * case, and writes nothing beside the destination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "base/stream_copy.h"

enum { ROOM = 3 * 4096 };

TEST(stream_copy_of_any_place_and_length_is_memcpy) {
    static unsigned char from[ROOM], to[ROOM], expected[ROOM];
    static const size_t lengths[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 4159, 4160, 8191};
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (unsigned char)(i * 31 + i / 251);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        for (size_t shift = 0; shift < 70; shift++) {
            size_t source = (shift * 7) % 67;
            memset(to, 0xa5, sizeof to);
            memset(expected, 0xa5, sizeof expected);
            memcpy(expected + shift, from + source, lengths[k]);
            acre__stream_copy(to + shift, from + source, lengths[k]);
            assert_memory_equal(to, expected, ROOM);
        }
    }
}

int main(void) {
    return tests_run("stream_copy");
}

/* Copies options structs in and result structs out, between a program and a library that may have
 * been built with different versions of acre.h.
 *
 * A struct only ever grows at its end, and zero means default. So a shorter struct equals a longer
 * one whose last fields are zero, and a longer struct is accepted if its unknown tail is zero.
 * memcpy reads the sizes, because the caller's struct may be unaligned. The functions touch nothing
 * but their arguments. */
#include "base/options.h"

#include <string.h>

#include "base/status.h"

/* No later version adds a longer tail: a larger struct_size is an uninitialised field. */
enum { OPTIONS_TAIL_BYTES = 64 * 1024 };

/* Reads the struct_size at `at` into *caller_size and checks that it is plausible. */
static acre_status options_size(const void *at, size_t size, const char *what,
                                size_t *caller_size) {
    memcpy(caller_size, at, sizeof *caller_size);
    if (*caller_size < sizeof *caller_size)
        return acre__fail(ACRE_E_OPTIONS, "%s: struct_size is %zu, expected sizeof(%s)", what,
                          *caller_size, what);
    if (*caller_size > size && *caller_size - size > OPTIONS_TAIL_BYTES)
        return acre__fail(ACRE_E_OPTIONS,
                          "%s: struct_size is %zu, far more than the %zu bytes of this version",
                          what, *caller_size, size);
    return ACRE_OK;
}

acre_status acre__options_in(void *to, size_t size, const void *from, const char *what) {
    size_t caller_size = sizeof caller_size;
    if (from) {
        acre_status status = options_size(from, size, what, &caller_size);
        if (status != ACRE_OK)
            return status;
        const unsigned char *bytes = from;
        for (size_t i = size; i < caller_size; i++)
            if (bytes[i] != 0)
                return acre__fail(ACRE_E_OPTIONS,
                                  "%s: byte %zu is set, but this version knows %zu bytes", what, i,
                                  size);
    }
    size_t known = caller_size < size ? caller_size : size;
    memset(to, 0, size);
    if (from)
        memcpy(to, from, known);
    memcpy(to, &size, sizeof size);
    return ACRE_OK;
}

acre_status acre__options_out(void *to, size_t size, const void *from, const char *what) {
    if (!to)
        return acre__fail(ACRE_E_NULL, "%s: NULL", what);
    size_t caller_size;
    acre_status status = options_size(to, size, what, &caller_size);
    if (status != ACRE_OK)
        return status;

    size_t known = caller_size < size ? caller_size : size;
    unsigned char *bytes = to;
    const size_t head = sizeof(size_t); /* struct_size: keeps the caller's value */
    memcpy(bytes + head, (const unsigned char *)from + head, known - head);
    memset(bytes + known, 0, caller_size - known);
    return ACRE_OK;
}

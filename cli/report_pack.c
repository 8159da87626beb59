/* Columns of numbers as text: see report_pack.h. */
#include "report_pack.h"

#include <stdlib.h>

#include "cli.h"

#define PACK_MOST (UINT64_C(1) << 52)

enum { PACK_VARINT = 10, PACK_BITS = 7, PACK_MORE = 0x80 };

static size_t pack_varint(unsigned char *at, uint64_t value) {
    size_t count = 0;
    while (value >= PACK_MORE) {
        at[count++] = (unsigned char)(value | PACK_MORE);
        value >>= PACK_BITS;
    }
    at[count++] = (unsigned char)value;
    return count;
}

static size_t pack_base64(char *text, const unsigned char *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *at = text;
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t three = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0);
        *at++ = digits[three >> 18];
        *at++ = digits[three >> 12 & 63];
        *at++ = left > 1 ? digits[three >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[three & 63] : '=';
    }
    return (size_t)(at - text);
}

json_t *pack_column(const uint64_t *first, size_t stride, size_t count) {
    unsigned char *bytes = cli_alloc(count * PACK_VARINT + 1);
    size_t used = 0;
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = *(const uint64_t *)((const char *)first + i * stride);
        value = value > PACK_MOST ? PACK_MOST : value;
        uint64_t folded = value >= before ? (value - before) << 1 : ((before - value) << 1) - 1;
        used += pack_varint(bytes + used, folded);
        before = value;
    }
    char *text = cli_alloc(used / 3 * 4 + 8);
    json_t *column = json_stringn_nocheck(text, pack_base64(text, bytes, used));
    free(text);
    free(bytes);
    return column;
}

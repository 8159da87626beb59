/* The text of a call stack: see trace_stack.h. */
#include "trace_stack.h"

#include <string.h>

/* Reads a hexadecimal number that ends with `last` or at the end of the text. */
static bool read_hex(const char **at, const char *end, char last, uint64_t *value) {
    static const char digits[] = "0123456789abcdef";
    int count = 0;
    const char *digit;
    *value = 0;
    while (*at < end && **at && (digit = strchr(digits, **at)) && count++ < 16) {
        *value = *value << 4 | (uint64_t)(digit - digits);
        ++*at;
    }
    bool is_ended = *at == end ? last == ' ' : **at == last;
    *at += *at < end;
    return count > 0 && is_ended;
}

bool trace_stack_next(const char **at, const char *end, uint64_t *module, uint64_t *offset) {
    return *at < end && read_hex(at, end, ':', module) && read_hex(at, end, ' ', offset);
}

/* Columns of numbers as text, for the data of a page: the differences of successive numbers, folded
 * as 0, -1, 1, -2, ..., with 7 bits in a byte, the lowest first and the top bit set in all bytes
 * but the last; all of that in base64. Numbers above 2^53, which JavaScript cannot represent,
 * become 2^53. The page's codec.js reads them. */
#ifndef ACRE_CLI_REPORT_PACK_H
#define ACRE_CLI_REPORT_PACK_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Packs `count` numbers, each `stride` bytes behind the one before. */
json_t *pack_column(const uint64_t *first, size_t stride, size_t count);

#endif

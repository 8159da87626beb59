/* Sizes, numbers and flags as people write them, in variables and in options of the tool. Pure, so
 * that the tool, which is not the library, compiles it again for itself. */
#ifndef ACRE_BASE_PARSE_H
#define ACRE_BASE_PARSE_H

#include <stdint.h>

/* All return 0, or -1 and leave *value if `text` is none or too large.
 *
 * Bytes take a suffix: K, KiB, M, MiB, G, GiB, T, TiB (powers of 1024), KB, MB, GB, TB (powers of
 * 1000), B, any case, no blanks. */
int acre__parse_bytes(const char *text, uint64_t *value);
/* Decimal or 0x... */
int acre__parse_number(const char *text, uint64_t *value);
/* 0/1/yes/no/on/off/true/false, any case. */
int acre__parse_flag(const char *text, int *value);

/* How far a device is behind: "1000" is operations, "5ms" milliseconds, given in nanoseconds; the
 * other value becomes 0. */
int acre__parse_lag(const char *text, uint64_t *operations, uint64_t *ns);

#endif

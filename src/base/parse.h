/* Parses sizes, numbers and flags, in variables and in options of the tool. Pure functions: the
 * tool, which is not part of the library, compiles this file a second time. */
#ifndef ACRE_BASE_PARSE_H
#define ACRE_BASE_PARSE_H

#include <stddef.h>
#include <stdint.h>

/* All functions return 0, or -1 if `text` is malformed or the number is too large; *value is then
 * unchanged.
 *
 * Bytes take a suffix: K, KiB, M, MiB, G, GiB, T, TiB (powers of 1024), KB, MB, GB, TB (powers of
 * 1000), B; in any case, without blanks. */
int acre__parse_bytes(const char *text, uint64_t *value);
/* Decimal or 0x... */
int acre__parse_number(const char *text, uint64_t *value);
/* 0/1/yes/no/on/off/true/false, in any case. */
int acre__parse_flag(const char *text, int *value);

/* How far a device lags behind the host: "1000" is operations, "5ms" is milliseconds, returned in
 * nanoseconds. The other value is set to 0. */
int acre__parse_lag(const char *text, uint64_t *operations, uint64_t *ns);

/* Where messages go: "stderr" or a path, then optionally ":error", ":warn", ":info" or ":debug".
 * *path_bytes is the length of the part in front of the level; *level is 1 to 4, or 0 without a
 * level. */
int acre__parse_log(const char *text, size_t *path_bytes, int *level);

/* Depth of call stacks: "8", or "8:fp" for a walk along frame pointers. */
int acre__parse_stacks(const char *text, unsigned *frames, int *by_frame_pointers);

enum { ACRE__PATH_BYTES = 4096, ACRE__STACK_MOST = 64 };

/* Copies the first `bytes` bytes of `path` with %p replaced by the process ID and %% by %. */
int acre__parse_path(const char *path, size_t bytes, char out[ACRE__PATH_BYTES]);

#endif

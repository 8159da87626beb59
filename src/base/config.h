/* Configuration: the ACRE_* variables, from one table. Read from the environment when asked for, so
 * a program may set them until it opens a device. */
#ifndef ACRE_BASE_CONFIG_H
#define ACRE_BASE_CONFIG_H

#include <stdint.h>

#include "acre.h"

/* key, kind, meaning. The variable is called ACRE_<key>. */
#define ACRE__CONFIG_LIST(X)                                                                       \
    X(DEVICE, TEXT, "device that acre_open(\"auto\") opens: cuda, cuda:1, soft, soft:1")           \
    X(CUDA_LIBRARY, TEXT, "driver library to load instead of libcuda.so.1")                        \
    X(SOFT_BYTES, BYTES, "memory of each soft device (default: a quarter of RAM)")                 \
    X(SOFT_DEVICES, NUMBER, "how many soft devices there are (default 1, at most 16)")             \
    X(SOFT_SEED, NUMBER,                                                                           \
      "run the soft device's streams one step at a time, in an order drawn "                       \
      "from this seed")                                                                            \
    X(SOFT_CHECK, FLAG,                                                                            \
      "check that uses of soft device memory are ordered (default: with a seed)")                  \
    X(SOFT_LAG, TEXT,                                                                              \
      "how far soft devices are behind the host: operations (1000) or milliseconds (5ms)")         \
    X(SOFT_WARP, NUMBER, "lanes of a warp in kernels of soft devices: 1 or 32 (default 32)")       \
    X(ADDRESS_BYTES, BYTES, "addresses reserved for a device's memory (default 8 times its size)") \
    X(VMM, FLAG, "no: do without mapping memory by hand, as on devices that cannot (default yes)") \
    X(CHUNK_CACHE_BYTES, BYTES,                                                                    \
      "chunks that nobody uses and that are kept (default 1/256 of the device)")                   \
    X(CHUNK_LIMIT_BYTES, BYTES,                                                                    \
      "what all chunks of a device may have together (default: no limit)")                         \
    X(COPY_THREADS, NUMBER, "threads that stage a copy of pageable memory (default: up to 12)")    \
    X(COPY_STAGE_BYTES, BYTES,                                                                     \
      "pageable copies from this size on are staged (default 512KiB, back 2MiB)")                  \
    X(TRACE, TEXT, "file to write a trace of pools to; %p in its name is the process's number")    \
    X(TRACE_BYTES, BYTES, "what a trace may come to (default 1GiB); then it ends")                 \
    X(TRACE_RING, FLAG, "a trace at its limit overwrites what is oldest instead (default no)")     \
    X(STATS, TEXT, "file to keep statistics in, for `acre stats`; %p as above")                    \
    X(SOFT_LIBRARIES, TEXT, "folder of the libraries that `acre run` puts under a program")        \
    X(RUN, TEXT, "set by `acre run` for the program: what to say at its end")                      \
    X(FAULT, TEXT, "for tests: driver call to fail, as entry:n[:once|from|sticky[:code]]")         \
    X(REQUIRE_CUDA, FLAG, "for tests: a missing GPU is a failure, not a skip")                     \
    X(DATA, TEXT, "for tests: folder with larger test data")

enum acre__config_key {
#define ACRE__CONFIG_ENUM(key, kind, meaning) ACRE__CONFIG_##key,
    ACRE__CONFIG_LIST(ACRE__CONFIG_ENUM)
#undef ACRE__CONFIG_ENUM
        ACRE__CONFIG_COUNT
};

/* The value as it stands, or NULL when unset or empty. */
const char *acre__config_string(enum acre__config_key key);

/* *value gets `unset` when the variable is unset. ACRE_E_CONFIG, with the variable and its value
 * in the detail, when it cannot be read; base/parse.h says how values are written. */
acre_status acre__config_bytes(enum acre__config_key key, uint64_t unset, uint64_t *value);
acre_status acre__config_number(enum acre__config_key key, uint64_t unset, uint64_t *value);
acre_status acre__config_flag(enum acre__config_key key, int unset, int *value);

/* Logs a warning for each ACRE_* variable in the environment that is not in the table, with the
 * nearest name that is. ACRE_TEST_* and ACRE_BUILD / ACRE_SOURCE (used by the test suite) are let
 * pass. Every name is warned about once in a process; while nobody listens none is used up. */
void acre__config_warn_unknown(void);

#endif

/* Configuration: the ACRE_* variables, from one table. acre reads them from the environment when it
 * needs them, so a program may set them until it opens a device. */
#ifndef ACRE_BASE_CONFIG_H
#define ACRE_BASE_CONFIG_H

#include <stdint.h>

#include "acre.h"

/* key, kind, meaning. The variable is called ACRE_<key>. */
#define ACRE__CONFIG_LIST(X)                                                                       \
    X(DEVICE, TEXT, "device that acre_open(\"auto\") opens: cuda, cuda:1, soft, soft:1")           \
    X(CUDA_LIBRARY, TEXT, "driver library to load instead of libcuda.so.1")                        \
    X(SOFT_BYTES, BYTES, "memory of each soft device (default: a quarter of RAM)")                 \
    X(SOFT_DEVICES, NUMBER, "number of soft devices (default 1, at most 16)")                      \
    X(SOFT_SEED, NUMBER,                                                                           \
      "run the soft device's streams one step at a time, in an order drawn "                       \
      "from this seed")                                                                            \
    X(SOFT_CHECK, FLAG,                                                                            \
      "report races: unordered uses of soft device memory (default: on with a seed or "            \
      "ACRE_DEBUG)")                                                                               \
    X(SOFT_LAG, TEXT,                                                                              \
      "how far soft devices lag behind the host: operations (1000) or milliseconds (5ms)")         \
    X(SOFT_WARP, NUMBER, "lanes per warp on soft devices: 1 or 32 (default 32)")                   \
    X(ADDRESS_BYTES, BYTES, "address space reserved per device (default 8 times its memory)")      \
    X(VMM, FLAG,                                                                                   \
      "no: do not use virtual memory management, as on devices without it (default yes)")          \
    X(CHUNK_CACHE_BYTES, BYTES,                                                                    \
      "unused chunks kept for reuse (default 1/256 of the device's memory)")                       \
    X(CHUNK_LIMIT_BYTES, BYTES,                                                                    \
      "limit on the chunks of a device, all together (default: no limit)")                         \
    X(COPY_THREADS, NUMBER, "threads that stage a copy of pageable memory (default: up to 12)")    \
    X(COPY_STAGE_BYTES, BYTES,                                                                     \
      "smallest pageable copy that is staged (default 512KiB to the device, 2MiB back)")           \
    X(LOG, TEXT,                                                                                   \
      "where to print messages: stderr or a file (%p in its name is the process ID), then "        \
      "optionally :error, :warn (default), :info or :debug")                                       \
    X(DEBUG, FLAG,                                                                                 \
      "find memory errors in every pool, and print them with call stacks (default no)")            \
    X(STACKS, TEXT,                                                                                \
      "frames of the call stack to keep for each allocation (default 8 with ACRE_DEBUG, else 0); " \
      "8:fp walks frame pointers, which is faster but needs -fno-omit-frame-pointer")              \
    X(TRACE, TEXT, "file to write a trace of pools to; %p in its name is the process ID")          \
    X(TRACE_BYTES, BYTES, "size limit of a trace (default 1GiB); the trace ends there")            \
    X(TRACE_RING, FLAG, "a trace at its limit overwrites its oldest events instead (default no)")  \
    X(STATS, TEXT,                                                                                 \
      "1: publish statistics for `acre top`; 0: do not; otherwise a file to keep them in, for "    \
      "`acre stats`; %p as for ACRE_TRACE")                                                        \
    X(CONTROL, FLAG, "answer `acre snapshot` and other commands of the same user (default no)")    \
    X(SNAPSHOT_ON_OOM, TEXT,                                                                       \
      "folder to write a snapshot to when a pool cannot serve a request (acre_snapshot)")          \
    X(SANITIZE, FLAG,                                                                              \
      "let compute-sanitizer check the blocks of pools: registers them with NVTX, and takes "      \
      "their memory from cuMemAlloc (default no)")                                                 \
    X(SOFT_LIBRARIES, TEXT, "folder of the libraries that `acre run` loads into a program")        \
    X(SHIM_LIBRARIES, TEXT, "folder of the libraries that `acre run --watch` loads")               \
    X(RUN, TEXT, "set by `acre run` for the program: what to report at exit")                      \
    X(FAULT, TEXT, "for tests: driver call to fail, as entry:n[:once|from|sticky[:code]]")         \
    X(REQUIRE_CUDA, FLAG, "for tests: a missing GPU is a failure, not a skip")                     \
    X(DATA, TEXT, "for tests: folder with larger test data")

enum acre__config_key {
#define ACRE__CONFIG_ENUM(key, kind, meaning) ACRE__CONFIG_##key,
    ACRE__CONFIG_LIST(ACRE__CONFIG_ENUM)
#undef ACRE__CONFIG_ENUM
        ACRE__CONFIG_COUNT
};

/* The unparsed value, or NULL when the variable is unset or empty, or when the program runs with
 * more privileges than its user (setuid): the user must not choose its files and libraries. */
const char *acre__config_string(enum acre__config_key key);

/* Read a variable and parse it (base/parse.h has the syntax). *value is `unset` when the variable
 * is unset. A value that cannot be parsed returns ACRE_E_CONFIG, with the variable and its value in
 * the detail. */
acre_status acre__config_bytes(enum acre__config_key key, uint64_t unset, uint64_t *value);
acre_status acre__config_number(enum acre__config_key key, uint64_t unset, uint64_t *value);
acre_status acre__config_flag(enum acre__config_key key, int unset, int *value);

/* The name of a variable, "ACRE_...". */
const char *acre__config_name(enum acre__config_key key);

#endif

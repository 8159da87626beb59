/* The log, and the variables that acre reads from the environment. Part of acre.h. */
#ifndef ACRE_LOG_H
#define ACRE_LOG_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum acre_log_level {
    ACRE_LOG_ERROR = 1,
    ACRE_LOG_WARN = 2,
    ACRE_LOG_INFO = 3,
    ACRE_LOG_DEBUG = 4
} acre_log_level;

/* Receives one message without a line end. May be called from any thread, also while the library
 * holds locks: it must not call into acre. */
typedef void (*acre_log_fn)(void *user, acre_log_level level, const char *area, const char *line);

/* Sends messages up to `level` to `fn`; NULL turns the log off. The library never prints anything
 * itself. Threads: set it before other threads use the library. */
ACRE_API acre_status acre_log_set(acre_log_fn fn, void *user, acre_log_level level);

/* The index-th variable that acre reads from the environment, its kind of value ("bytes",
 * "number", "text", "yes or no") and what it does. Returns ACRE_E_INVALID past the last one. */
ACRE_API acre_status acre_config_describe(size_t index, const char **name, const char **kind,
                                          const char **meaning);

#ifdef __cplusplus
}
#endif

#endif

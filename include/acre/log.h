/* The log, and the environment variables that acre reads. Part of acre.h. */
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

/* Receives one log message, without a line break at its end. acre may call it on any thread and
 * with locks held, so it must not call acre. `area` is the part of acre that logs, such as "pool".
 */
typedef void (*acre_log_fn)(void *user, acre_log_level level, const char *area, const char *line);

/* Sends log messages up to `level` to `fn`. NULL for `fn` turns the log off, which is the default.
 * acre itself prints nothing, unless the user sets ACRE_LOG or ACRE_DEBUG: then messages also go to
 * the place that ACRE_LOG names. A message with a call stack has several lines; the callback gets
 * one call for each.
 * Threads: no other thread may use acre during the call. */
ACRE_API acre_status acre_log_set(acre_log_fn fn, void *user, acre_log_level level);

/* Describes the index-th environment variable that acre reads: its name, the kind of its value
 * ("bytes", "number", "text", "yes or no") and what it does. The strings are static.
 * Returns ACRE_E_INVALID past the last variable. */
ACRE_API acre_status acre_config_describe(size_t index, const char **name, const char **kind,
                                          const char **meaning);

#ifdef __cplusplus
}
#endif

#endif

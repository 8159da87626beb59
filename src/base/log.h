/* Messages to the program's log callback (acre_log_set). Costs one predictable branch when there is
 * no callback. Never prints. */
#ifndef ACRE_BASE_LOG_H
#define ACRE_BASE_LOG_H

#include "acre.h"

/* Logs a message. `area` is a word such as "config", "driver", "soft". Lines over 500 bytes are
 * truncated. errno is preserved. */
void acre__log(acre_log_level level, const char *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* 1 if a callback receives messages of this level. For callers that prepare a message at some
 * cost. */
int acre__log_wanted(acre_log_level level);

#endif

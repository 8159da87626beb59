/* Messages to the program's log callback (acre_log_set), and to the place that ACRE_LOG names.
 * Costs one predictable branch when there is neither. Without ACRE_LOG and ACRE_DEBUG the library
 * prints nothing. */
#ifndef ACRE_BASE_LOG_H
#define ACRE_BASE_LOG_H

#include "acre.h"

enum { ACRE__LOG_LINE = 501 }; /* bytes of a line, with its terminating NUL */

/* Logs a message. `area` is a word such as "config", "driver", "soft". Lines over 500 bytes are
 * truncated. errno is preserved. */
void acre__log(acre_log_level level, const char *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Logs a message of several lines, such as one with a call stack. A message that was printed
 * before is counted and not printed again. */
void acre__log_lines(acre_log_level level, const char *area, char (*lines)[ACRE__LOG_LINE],
                     unsigned count);

/* 1 if messages of this level go anywhere. For callers that prepare a message at some cost. */
int acre__log_wanted(acre_log_level level);

/* Reads ACRE_LOG and ACRE_DEBUG and opens the file, once; returns ACRE_E_CONFIG if that fails. The
 * first message also reads them, but has no way to return a failure. */
acre_status acre__log_begin(void);

/* 1 if ACRE_DEBUG is on. */
int acre__debug_is_on(void);

/* Prints which lines were repeated, and how often. For the end of the process. */
void acre__log_end(void);

#endif

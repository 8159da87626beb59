/* Messages to the program's log callback (acre_log_set). One predictable branch when there is no
 * callback. Never prints. */
#ifndef ACRE_BASE_LOG_H
#define ACRE_BASE_LOG_H

#include "acre.h"

/* `area` is a word such as "config", "driver", "soft". Lines over 500 bytes are cut.
 * errno is kept. */
void acre__log(acre_log_level level, const char *area, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Would a message of this level reach anybody? For callers with work to do before a message. */
int acre__log_wanted(acre_log_level level);

#endif

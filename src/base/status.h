/* Failing with a reason: the only way an acre_status other than ACRE_OK is made.
 * acre__fail stores one line for acre_last_detail() in the calling thread's record. */
#ifndef ACRE_BASE_STATUS_H
#define ACRE_BASE_STATUS_H

#include "acre.h"

/* Stores the formatted detail (cut at ACRE__DETAIL_BYTES) and returns `status`. The arguments may
 * point into the old detail. Without memory for a record the detail says that instead. */
acre_status acre__fail(acre_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces every control character by a blank, so that input quoted in a message stays one line. */
void acre__one_line(char *text);

#endif

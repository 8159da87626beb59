/* Failing with a reason: the only way an acre_status other than ACRE_OK is made.
 * acre__fail stores one line for acre_last_detail() in the calling thread's record. */
#ifndef ACRE_BASE_STATUS_H
#define ACRE_BASE_STATUS_H

#include "acre.h"
#include "base/thread.h"

/* Stores the formatted detail (cut at ACRE__DETAIL_BYTES) and returns `status`. The arguments may
 * point into the old detail. Without memory for a record the detail says that instead. */
acre_status acre__fail(acre_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A detail kept over the calls that undo what was begun, which may fail in turn. */
struct acre__said {
    char line[ACRE__DETAIL_BYTES];
};
void acre__said_keep(struct acre__said *said);
/* As acre__fail with that detail. */
acre_status acre__said_fail(acre_status status, const struct acre__said *said);

/* The static analyzer looks at one file at a time and does not know that these never return
 * ACRE_OK.
 */
#ifdef __clang_analyzer__
#define acre__fail(status, ...) (acre__fail((status), __VA_ARGS__), (status))
#define acre__said_fail(status, said) (acre__said_fail((status), (said)), (status))
#endif

/* ACRE_E_NULL for an argument that is NULL; `what` is the function and the argument. */
static inline acre_status acre__not_null(const void *argument, const char *what) {
    return argument ? ACRE_OK : acre__fail(ACRE_E_NULL, "%s is NULL", what);
}

/* The machine has no memory left, of the device or of the host. */
static inline int acre__is_no_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY;
}
/* The same, or addresses or a limit ended first: less may still fit. */
static inline int acre__is_too_much(acre_status status) {
    return acre__is_no_memory(status) || status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* Replaces every control character by a blank, so that input quoted in a message stays one line. */
void acre__one_line(char *text);

#endif

/* Statuses with a reason. acre__fail stores one line for acre_last_detail() in the calling thread's
 * record and returns the status. Failures of the driver get there through acre__driver_fail
 * (device/driver_status.h). Some internal functions return a bare status such as ACRE_E_NOT_READY,
 * which their callers handle. */
#ifndef ACRE_BASE_STATUS_H
#define ACRE_BASE_STATUS_H

#include "acre.h"
#include "base/thread.h"

/* Stores the formatted detail (truncated to ACRE__DETAIL_BYTES) and returns `status`. The arguments
 * may point into the old detail. A thread without a record (out of host memory) stores nothing: its
 * detail says that no host memory was left. */
acre_status acre__fail(acre_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Notes the block that the failure just stored is about, for the log. Returns the status. */
acre_status acre__about(acre_status status, const void *p);

/* Makes the detail of a failure begin with the name of the public function that the program called,
 * as in "acre_alloc: ...". Replaces the name of another public function, which acre called to do
 * the work. NULL for `call` only removes that name. Every public function that calls others ends
 * with this. Returns the status. */
acre_status acre__fail_in(acre_status status, const char *call);
/* From now on, calls `fn` when a call of the program fails, with the thread's detail set. */
void acre__on_refusal(void (*fn)(acre_status status));
static inline acre_status acre__in_call(acre_status status, const char *call) {
    return status ? acre__fail_in(status, call) : ACRE_OK;
}

/* Around a call of another public function, which may be refused because of what the program
 * passed: only the call that the program made is logged. The second returns the status. */
static inline void acre__inner_begin(void) {
    struct acre__thread *self = acre__thread_self();
    if (self->id != 0) /* the shared record must not be written */
        self->inner++;
}
static inline acre_status acre__inner_end(acre_status status) {
    struct acre__thread *self = acre__thread_self();
    if (self->id != 0)
        self->inner--;
    return status;
}

/* A copy of the detail, saved while clean-up calls run: these may fail and overwrite the detail. */
struct acre__said {
    char line[ACRE__DETAIL_BYTES];
};
void acre__said_keep(struct acre__said *said);
/* As acre__fail, with the saved detail. */
acre_status acre__said_fail(acre_status status, const struct acre__said *said);

/* The static analyzer sees one file at a time and does not know that these functions return the
 * status that they are given. */
#ifdef __clang_analyzer__
#define acre__fail(status, ...) (acre__fail((status), __VA_ARGS__), (status))
#define acre__about(status, p) (acre__about((status), (p)), (status))
#define acre__said_fail(status, said) (acre__said_fail((status), (said)), (status))
#define acre__in_call(status, call) (status)
#endif

/* Returns ACRE_E_NULL if the argument is NULL; `what` names the function and the argument. */
static inline acre_status acre__not_null(const void *argument, const char *what) {
    return argument ? ACRE_OK : acre__fail(ACRE_E_NULL, "%s is NULL", what);
}

/* 1 if the device or the host is out of memory. */
static inline int acre__is_no_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY;
}
/* 1 if memory, addresses or a limit ran out: a smaller request may still succeed. */
static inline int acre__is_too_much(acre_status status) {
    return acre__is_no_memory(status) || status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* Replaces every control character by a blank, so that input quoted in a message stays one line. */
void acre__one_line(char *text);

#endif

/* Statuses as text, and the detail line of a failure.
 *
 * Names and texts come from ACRE_STATUS_LIST in acre/status.h. Two entries with the same value do
 * not compile, since they would be two cases of one switch. The detail is in the calling thread's
 * record (base/thread.h), so nothing here takes a lock. */
#include "base/status.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"

#undef acre__fail /* undo the macros for the static analyzer */
#undef acre__said_fail
#undef acre__about

const char *acre_status_text(acre_status status) {
    switch ((int)status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case value:                                                                                    \
        return text;
        ACRE_STATUS_LIST(STATUS_TEXT)
#undef STATUS_TEXT
    default:
        return "not a status of acre";
    }
}

const char *acre_status_name(acre_status status) {
    switch ((int)status) {
#define STATUS_NAME(name, value, text)                                                             \
    case value:                                                                                    \
        return #name;
        ACRE_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "unknown status";
    }
}

const char *acre_last_detail(void) {
    return acre__thread_self()->detail;
}

const char *acre_version(void) {
#define STATUS_QUOTE(major, minor, patch) #major "." #minor "." #patch
#define STATUS_VERSION(major, minor, patch) STATUS_QUOTE(major, minor, patch)
    return STATUS_VERSION(ACRE_VERSION_MAJOR, ACRE_VERSION_MINOR, ACRE_VERSION_PATCH);
#undef STATUS_VERSION
#undef STATUS_QUOTE
}

void acre__one_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = ' ';
}

acre_status acre__fail(acre_status status, const char *format, ...) {
    struct acre__thread *self = acre__thread_self();
    if (self->id == 0)
        return status; /* the shared record must not be written */

    /* Formatted into a local buffer, since an argument may be the old detail. */
    char line[ACRE__DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    if (vsnprintf(line, sizeof line, format, args) < 0)
        line[0] = '\0';
    va_end(args);
    acre__one_line(line);
    memcpy(self->detail, line, strlen(line) + 1);
    self->about = NULL;
    return status;
}

acre_status acre__about(acre_status status, const void *p) {
    struct acre__thread *self = acre__thread_self();
    if (self->id != 0)
        self->about = p;
    return status;
}

/* Returns the part of a detail behind "acre_...: ", or all of it if it does not begin with the name
 * of a public function. */
static const char *behind_call(const char *detail) {
    if (strncmp(detail, "acre_", 5) != 0)
        return detail;
    size_t length = strspn(detail, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (length > 8 && strncmp(detail + length - 8, "_options", 8) == 0)
        return detail; /* the name of a struct */
    return strncmp(detail + length, ": ", 2) == 0 ? detail + length + 2 : detail;
}

static _Atomic(void (*)(acre_status status)) on_refusal;

void acre__on_refusal(void (*fn)(acre_status status)) {
    atomic_store_explicit(&on_refusal, fn, memory_order_release);
}

acre_status acre__fail_in(acre_status status, const char *call) {
    const char *detail = behind_call(acre_last_detail());
    const void *about = acre__thread_self()->about;
    if (!call)
        return acre__about(acre__fail(status, "%s", detail), about);
    (void)acre__about(acre__fail(status, "%s: %s", call, detail), about);
    void (*fn)(acre_status) = atomic_load_explicit(&on_refusal, memory_order_acquire);
    if (fn && !acre__thread_self()->inner)
        fn(status);
    return status;
}

/* A plain copy without formatting: releasing memory saves the detail each time, and mostly
 * succeeds. */
void acre__said_keep(struct acre__said *said) {
    const char *line = acre_last_detail();
    memcpy(said->line, line, strlen(line) + 1);
}

acre_status acre__said_fail(acre_status status, const struct acre__said *said) {
    struct acre__thread *self = acre__thread_self();
    if (self->id != 0)
        memcpy(self->detail, said->line, strlen(said->line) + 1);
    return status;
}

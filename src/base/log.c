/* Delivers messages of the library to the program's log callback.
 *
 * `level` is the switch: 0 is off. It is stored last, so a thread that reads a level also reads the
 * callback that belongs to it. The caller must not replace one callback by another while other
 * threads log (acre.h says so). Nothing here takes a lock, since messages are sent under locks of
 * every rank. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/status.h"
#include "base/thread.h"

enum { LOG_LINE_BYTES = 500 };

static struct {
    _Atomic int level; /* highest acre_log_level sent, 0 = off */
    acre_log_fn fn;
    void *user;
} sink;

acre_status acre_log_set(acre_log_fn fn, void *user, acre_log_level level) {
    acre_status status = acre__enter();
    if (status != ACRE_OK)
        return status;
    if (fn && ((int)level < ACRE_LOG_ERROR || (int)level > ACRE_LOG_DEBUG))
        return acre__fail(ACRE_E_INVALID, "acre_log_set: level %d is not between %d and %d",
                          (int)level, ACRE_LOG_ERROR, ACRE_LOG_DEBUG);
    atomic_store_explicit(&sink.level, 0, memory_order_relaxed);
    sink.fn = fn;
    sink.user = user;
    atomic_store_explicit(&sink.level, fn ? (int)level : 0, memory_order_release);
    return ACRE_OK;
}

int acre__log_wanted(acre_log_level level) {
    return (int)level <= atomic_load_explicit(&sink.level, memory_order_acquire);
}

void acre__log(acre_log_level level, const char *area, const char *format, ...) {
    if (!acre__log_wanted(level))
        return;
    int saved_errno = errno; /* callers often log a failure before they read errno */
    char line[LOG_LINE_BYTES + 1];
    va_list args;
    va_start(args, format);
    if (vsnprintf(line, sizeof line, format, args) < 0)
        line[0] = '\0';
    va_end(args);
    acre__one_line(line);
    sink.fn(sink.user, level, area, line);
    errno = saved_errno;
}

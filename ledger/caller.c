/* The thread's caller, and messages that are printed once; see caller.h.
 *
 * Seen keys are kept in a table of fixed size, so that a message allocates no memory: the program
 * may be out of memory. Locks: one mutex around the table and the output. */
#include "caller.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ledger.h"
#include "ledger_oom.h"

enum { CALLER_KEYS = 512, CALLER_KEY_BYTES = 64, CALLER_WHY_BYTES = 320 };

static _Thread_local struct acre_ledger_caller caller_now
    __attribute__((tls_model("initial-exec")));
/* Why the current call is refused; empty: not known. */
static _Thread_local char caller_why[CALLER_WHY_BYTES] __attribute__((tls_model("initial-exec")));

static _Thread_local struct ledger_request caller_request
    __attribute__((tls_model("initial-exec")));

LEDGER_EXPORT void acre_ledger_enter(struct acre_ledger_caller *before, const char *call,
                                     const void *address) {
    *before = caller_now;
    if (!caller_now.call) {
        caller_now = (struct acre_ledger_caller){.call = call, .address = address};
        caller_why[0] = '\0';
        caller_request = (struct ledger_request){RUN_KIND_COUNT, 0};
    }
}

void acre__ledger_request(enum run_kind kind, size_t bytes) {
    caller_request = (struct ledger_request){kind, bytes};
}

static unsigned caller_depth; /* of call stacks; 0: off. Set before any thread calls a door */

void acre__ledger_use_stacks(unsigned depth) {
    caller_depth = depth;
}

void acre__ledger_find_outside(void) {
    if (caller_depth && caller_now.call && !caller_now.from)
        acre__ledger_outside(&caller_now, caller_depth);
}

/* Results that are not errors of the call. A correct program expects them of a query: work that is
 * not done, and an address that CUDA does not know. At exit the driver may have ended before the
 * runtime's own calls. And after a finding of the soft driver the device is lost, so that every
 * call fails: the finding is the report. */
static int caller_is_expected(const char *call, unsigned code) {
    return code == CUDA_ERROR_NOT_READY || code == CUDA_ERROR_DEINITIALIZED ||
           (code == CUDA_ERROR_INVALID_VALUE && strncmp(call, "cuPointerGet", 12) == 0) ||
           (code == CUDA_ERROR_LAUNCH_FAILED && acre__record_has_wrongs());
}

LEDGER_EXPORT void acre_ledger_leave(const struct acre_ledger_caller *before, unsigned code,
                                     const char *error) {
    if (code && !before->call && !caller_is_expected(caller_now.call, code)) {
        acre__ledger_find_outside();
        acre__record_refusal(acre__record_site(&caller_now), code, error, caller_why);
    }
    if (code == CUDA_ERROR_OUT_OF_MEMORY && !before->call)
        acre__oom_report(&caller_now, &caller_request);
    if (!before->call)
        acre__record_copied(acre__driver_copied_bytes(acre__ledger_driver()));
    caller_now = *before;
}

CUresult acre__ledger_end(const struct acre_ledger_caller *before, CUresult result) {
    acre_ledger_leave(before, result, result ? acre__driver_error_name(result) : "");
    return result;
}

struct acre_ledger_caller acre__ledger_caller(void) {
    return caller_now;
}

void acre__ledger_why(const char *format, ...) {
    va_list arguments;
    if (caller_why[0])
        return;
    va_start(arguments, format);
    vsnprintf(caller_why, sizeof caller_why, format, arguments);
    va_end(arguments);
}

/* ---- libacre in the program ---- */

LEDGER_EXPORT void acre_ledger_opened(const void *device, const void *address) {
    struct acre_ledger_caller before;
    acre_ledger_enter(&before, "acre_open", address);
    acre__record_state(RUN_PROCESS_USED);
    acre__ledger_add(RUN_OPENED, (uintptr_t)device, 0);
    acre_ledger_leave(&before, 0, "");
}

LEDGER_EXPORT void acre_ledger_closed(const void *device) {
    acre__ledger_settle(RUN_OPENED, (uintptr_t)device,
                        acre__ledger_take(RUN_OPENED, (uintptr_t)device), CUDA_SUCCESS);
}

LEDGER_EXPORT void acre_ledger_leaked(const char *call, uint64_t blocks, uint64_t bytes,
                                      const void *address) {
    struct acre_ledger_caller caller = {.call = call, .address = address};
    acre__record_acre(blocks, bytes, acre__record_site(&caller));
}

/* ---- messages ---- */

static struct {
    pthread_mutex_t lock;
    unsigned count;
    char keys[CALLER_KEYS][CALLER_KEY_BYTES];
} said = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns 1 if the key is new, or if the table is full. */
static int said_is_new(const char *key) {
    char kept[CALLER_KEY_BYTES];
    snprintf(kept, sizeof kept, "%s", key);
    for (unsigned i = 0; i < said.count; i++) {
        if (strcmp(said.keys[i], kept) == 0)
            return 0;
    }
    if (said.count < CALLER_KEYS)
        memcpy(said.keys[said.count++], kept, sizeof kept);
    return 1;
}

LEDGER_EXPORT void acre_ledger_say_once(const char *key, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&said.lock);
    if (said_is_new(key))
        acre__ledger_say("%s", line);
    pthread_mutex_unlock(&said.lock);
}

/* The thread's caller, and messages that are printed once; see caller.h.
 *
 * Seen keys are kept in a table of fixed size, so that a message allocates no memory: the program
 * may be out of memory. Locks: one mutex around the table and the output. */
#include "caller.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver_doors.h"
#include "ledger.h"

enum { CALLER_KEYS = 512, CALLER_KEY_BYTES = 64 };

static _Thread_local struct acre_standin_caller caller_now
    __attribute__((tls_model("initial-exec")));

STANDIN_EXPORT void acre_standin_enter(struct acre_standin_caller *before, const char *call,
                                       const void *address) {
    *before = caller_now;
    if (!caller_now.call)
        caller_now = (struct acre_standin_caller){call, address};
}

STANDIN_EXPORT void acre_standin_leave(const struct acre_standin_caller *before) {
    caller_now = *before;
}

struct acre_standin_caller acre__standin_caller(void) {
    return caller_now;
}

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

STANDIN_EXPORT void acre_standin_say_once(const char *key, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&said.lock);
    if (said_is_new(key))
        fprintf(stderr, "acre: %s\n", line);
    pthread_mutex_unlock(&said.lock);
}

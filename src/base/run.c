/* Reports to the stand-in of `acre run`; see run.h. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/config.h"
#include "base/run.h"

static _Atomic int run_is_silent;

void acre__run_never(void) {
    atomic_store_explicit(&run_is_silent, 1, memory_order_relaxed);
}

/* Copies the function of that name in the stand-in. Returns 0 outside of `acre run`. */
static int run_find(const char *name, void *function_out) {
    int is_silent = atomic_load_explicit(&run_is_silent, memory_order_relaxed);
    void *found =
        !is_silent && acre__config_string(ACRE__CONFIG_RUN) ? dlsym(RTLD_DEFAULT, name) : NULL;
    if (found)
        memcpy(function_out, &found, sizeof found);
    return found != NULL;
}

void acre__run_opened(const void *device, const void *address) {
    void (*opened)(const void *, const void *);
    if (run_find("acre_ledger_opened", &opened))
        opened(device, address);
}

void acre__run_closed(const void *device) {
    void (*closed)(const void *);
    if (run_find("acre_ledger_closed", &closed))
        closed(device);
}

void acre__run_leaked(const char *call, uint64_t blocks, uint64_t bytes, const void *address) {
    void (*leaked)(const char *, uint64_t, uint64_t, const void *);
    if (blocks && run_find("acre_ledger_leaked", &leaked))
        leaked(call, blocks, bytes, address);
}

static _Atomic(void (*)(const char *)) run_wrong;

void acre__run_begin(void) {
    void (*wrong)(const char *);
    if (run_find("acre_ledger_wrong", &wrong))
        atomic_store_explicit(&run_wrong, wrong, memory_order_release);
}

void acre__run_wrong(const char *text) {
    void (*wrong)(const char *) = atomic_load_explicit(&run_wrong, memory_order_acquire);
    if (wrong)
        wrong(text);
}

void acre__run_at_exit(void (*fn)(void)) {
    void (*at_exit)(void (*)(void));
    if (run_find("acre_ledger_at_exit", &at_exit))
        at_exit(fn);
}

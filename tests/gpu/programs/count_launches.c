/* Counts the launches and copies that CUPTI sees in a program under `acre run`, and how many of
 * them came through the shim: the shim's code is then on the stack. Preloaded; prints a line for
 * each function at the end of the process, "count NAME THROUGH PAST". */
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 1024, FRAMES = 64 };

static struct {
    _Atomic(const char *) name;
    atomic_ulong through, past;
} counts[NAMES];

static const char *const prefixes[] = {"cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset"};

/* Host functions cannot use the device. */
static int is_counted(const char *name) {
    if (strncmp(name, "cuLaunchHostFunc", strlen("cuLaunchHostFunc")) == 0)
        return 0;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    return 0;
}

static int is_through_shim(void) {
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++) {
        Dl_info info;
        if (dladdr(frames[i], &info) && info.dli_fname && strstr(info.dli_fname, "acre_shim"))
            return 1;
    }
    return 0;
}

static void CUPTIAPI on_call(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                             const void *data) {
    const CUpti_CallbackData *call = data;
    (void)user, (void)domain;
    if (call->callbackSite != CUPTI_API_ENTER || id >= NAMES || !is_counted(call->functionName))
        return;
    atomic_store(&counts[id].name, call->functionName);
    atomic_fetch_add(is_through_shim() ? &counts[id].through : &counts[id].past, 1);
}

__attribute__((constructor)) static void begin(void) {
    CUpti_SubscriberHandle subscriber;
    if (cuptiSubscribe(&subscriber, on_call, NULL) != CUPTI_SUCCESS ||
        cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API) != CUPTI_SUCCESS)
        fprintf(stderr, "count: CUPTI refuses\n");
}

__attribute__((destructor)) static void end(void) {
    for (int i = 0; i < NAMES; i++)
        if (atomic_load(&counts[i].name))
            fprintf(stderr, "count %s %lu %lu\n", atomic_load(&counts[i].name),
                    atomic_load(&counts[i].through), atomic_load(&counts[i].past));
}

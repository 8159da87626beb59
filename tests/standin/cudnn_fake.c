/* libcudnn_fake.so: its constructor waits for a thread that allocates memory. The dynamic linker
 * holds its lock meanwhile, so a hook that took that lock would never return. For watch_cases.c. */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

typedef int (*alloc_fn)(unsigned long long *, size_t);
typedef int (*free_fn)(unsigned long long);
typedef int (*retain_fn)(void **, int);
typedef int (*current_fn)(void *);

__attribute__((visibility("default"))) int fake_is_ok;

static alloc_fn fake_alloc;
static free_fn fake_free;
static retain_fn fake_retain;
static current_fn fake_current;

static void *fake_thread(void *nothing) {
    unsigned long long block = 0;
    void *context;
    fake_is_ok = !fake_retain(&context, 0) && !fake_current(context) &&
                 !fake_alloc(&block, 1 << 20) && !fake_free(block);
    return nothing;
}

__attribute__((constructor)) static void fake_begin(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found[4];
    pthread_t thread;
    if (!driver)
        return;
    found[0] = dlsym(driver, "cuMemAlloc_v2");
    found[1] = dlsym(driver, "cuMemFree_v2");
    found[2] = dlsym(driver, "cuDevicePrimaryCtxRetain");
    found[3] = dlsym(driver, "cuCtxSetCurrent");
    memcpy(&fake_alloc, &found[0], sizeof found[0]);
    memcpy(&fake_free, &found[1], sizeof found[0]);
    memcpy(&fake_retain, &found[2], sizeof found[0]);
    memcpy(&fake_current, &found[3], sizeof found[0]);
    if (pthread_create(&thread, NULL, fake_thread, NULL) == 0)
        pthread_join(thread, NULL);
}

/* A plug-in that is loaded with RTLD_DEEPBIND and uses CUDA, for watch_cases.c. */
#include <dlfcn.h>
#include <string.h>

__attribute__((visibility("default"))) int deep_use(void);

/* Allocates 1 MiB and frees it. Returns 1 if everything succeeded. */
int deep_use(void) {
    static const char *const names[] = {"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
                                        "cuMemAlloc_v2", "cuMemFree_v2"};
    struct {
        int (*init)(unsigned);
        int (*retain)(void **, int);
        int (*set_current)(void *);
        int (*alloc)(unsigned long long *, size_t);
        int (*free)(unsigned long long);
    } call;
    void *found[sizeof names / sizeof names[0]], *context;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    unsigned long long block = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!driver || !(found[i] = dlsym(driver, names[i])))
            return 0;
    }
    memcpy(&call, found, sizeof call);
    return !call.init(0) && !call.retain(&context, 0) && !call.set_current(context) &&
           !call.alloc(&block, (size_t)1 << 20) && block && !call.free(block);
}

/* libcublas_fake.so: a library between a program and the driver, with the name of one of NVIDIA's.
 * It allocates at several places of its code, and from a callback of libc. For watch_cases.c. */
#include <pthread.h>
#include <stddef.h>

typedef int (*alloc_fn)(unsigned long long *, size_t);

#define FAKE_EXPORT __attribute__((visibility("default")))

FAKE_EXPORT int fake_create(alloc_fn alloc, unsigned long long blocks[3], size_t bytes);
FAKE_EXPORT int fake_one(alloc_fn alloc, unsigned long long *block, size_t bytes);

static struct {
    alloc_fn alloc;
    unsigned long long *block;
    size_t bytes;
    int result;
} once_arguments;

static void fake_once(void) {
    once_arguments.result = once_arguments.alloc(once_arguments.block, once_arguments.bytes);
}

/* Three blocks from three places. */
int fake_create(alloc_fn alloc, unsigned long long blocks[3], size_t bytes) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    once_arguments.alloc = alloc;
    once_arguments.block = &blocks[0];
    once_arguments.bytes = bytes;
    if (pthread_once(&once, fake_once) || once_arguments.result)
        return 1;
    int first = alloc(&blocks[1], bytes);
    int second = alloc(&blocks[2], bytes);
    return first || second;
}

int fake_one(alloc_fn alloc, unsigned long long *block, size_t bytes) {
    int result = alloc(block, bytes);
    return result != 0;
}

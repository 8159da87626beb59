/* An overrun: the program writes one element past the end of a buffer. ACRE_DEBUG=1 puts a red zone
 * behind each block of a pool and checks it when the block is freed. The buffer is pinned memory,
 * so that the program can write to it without a kernel. */
#include <acre.h>
#include <stdio.h>

enum { COUNT = 500 };

int main(void) {
    acre_device *device;
    acre_pool *pool;
    void *p;
    if (acre_open("auto", NULL, &device) || acre_pool_default(device, ACRE_KIND_PINNED, &pool) ||
        acre_pool_alloc(pool, COUNT * sizeof(int), 0, NULL, &p)) {
        fprintf(stderr, "%s\n", acre_last_detail());
        return 2;
    }
    int *values = p;
    for (int i = 0; i <= COUNT; i++) { /* the mistake: <= */
        values[i] = i;
    }
    acre_pool_free(pool, p, NULL);
    acre_close(device);
    return 0;
}

/* A late write: the program writes to a buffer that it has freed. ACRE_DEBUG=1 fills freed blocks
 * and checks them before they are reused, and when the device is closed. */
#include <acre.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    acre_device *device;
    acre_pool *pool;
    void *p;
    if (acre_open("auto", NULL, &device) || acre_pool_default(device, ACRE_KIND_PINNED, &pool) ||
        acre_pool_alloc(pool, 4096, 0, NULL, &p)) {
        fprintf(stderr, "%s\n", acre_last_detail());
        return 2;
    }
    acre_pool_free(pool, p, NULL);
    strcpy(p, "late"); /* the mistake */
    acre_close(device);
    return 0;
}

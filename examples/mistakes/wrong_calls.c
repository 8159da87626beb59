/* Calls that are refused: the wrong function to free a block, and a copy past the end of one.
 * Nobody checks their statuses; ACRE_DEBUG=1 logs calls that a correct program does not make. */
#include <acre.h>
#include <stdio.h>

enum { BYTES = 1000 };

int main(void) {
    static char host[2 * BYTES];
    acre_device *device;
    void *p;
    if (acre_open("auto", NULL, &device) || acre_alloc(device, BYTES, NULL, &p)) {
        fprintf(stderr, "%s\n", acre_last_detail());
        return 2;
    }
    acre_copy_sync(device, p, host, sizeof host); /* the mistake: BYTES */
    acre_mem_free(device, p);                     /* the mistake: acre_free */
    acre_free(p, NULL);
    acre_close(device);
    return 0;
}

/* A leak: the program frees three of its four buffers. ACRE_DEBUG=1 names the line that allocated
 * the fourth. */
#include <acre.h>
#include <stdio.h>

enum { BUFFERS = 4, BYTES = 100000 };

static void *make_buffer(acre_device *device) {
    void *p;
    return acre_alloc(device, BYTES, NULL, &p) == ACRE_OK ? p : NULL;
}

int main(void) {
    acre_device *device;
    void *buffers[BUFFERS];
    if (acre_open("auto", NULL, &device)) {
        fprintf(stderr, "%s\n", acre_last_detail());
        return 2;
    }
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = make_buffer(device);
    }
    for (int i = 1; i < BUFFERS; i++) { /* the mistake: should begin at 0 */
        acre_free(buffers[i], NULL);
    }
    acre_close(device);
    return 0;
}

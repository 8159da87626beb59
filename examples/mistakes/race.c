/* A race: one stream fills a buffer, another copies from it without waiting. Only a soft device
 * notices, since it knows what each operation uses; ACRE_DEBUG=1 names the two calls. */
#include <acre.h>
#include <stdio.h>

enum { BYTES = 4096 };

int main(void) {
    static char host[BYTES];
    acre_device *device;
    acre_stream fills, copies;
    void *p;
    if (acre_open("soft", NULL, &device) ||
        acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &fills) ||
        acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &copies) ||
        acre_alloc(device, BYTES, fills, &p) || acre_stream_sync(device, fills)) {
        fprintf(stderr, "%s\n", acre_last_detail());
        return 2;
    }
    acre_fill(device, p, 1, BYTES, fills);
    /* The mistake: no acre_stream_wait between the two. */
    acre_copy(device, host, p, BYTES, copies);
    acre_free(p, fills);
    acre_close(device);
    return 0;
}

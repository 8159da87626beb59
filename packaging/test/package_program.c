/* A program as a user writes it, built as C and as C++: allocates from the pool of a soft device.
 */
#include <acre.h>
#include <stdio.h>

int main(void) {
    acre_device *device = NULL;
    void *p = NULL;
    acre_status status = acre_open("soft", NULL, &device);
    if (status == ACRE_OK) {
        status = acre_alloc(device, 1000, NULL, &p);
    }
    if (status == ACRE_OK) {
        status = acre_free(p, NULL);
    }
    if (status == ACRE_OK) {
        status = acre_close(device);
    }
    printf("%s: %s\n", acre_version(), acre_status_text(status));
    return status == ACRE_OK ? 0 : 1;
}

/* Allocates device memory, copies numbers there and back, and compares them. */
#include <acre.h>
#include <stdio.h>
#include <string.h>

/* Prints the error and returns the exit code. */
static int failed(acre_status status) {
    fprintf(stderr, "%s (%s)\n", acre_status_text(status), acre_last_detail());
    return 2;
}

int main(void) {
    acre_status status;

    acre_device *device;
    void *memory;
    float sent[1000] = {1, 2, 3}, back[1000];
    if ((status = acre_open("auto", NULL, &device)) != ACRE_OK ||
        (status = acre_alloc(device, sizeof sent, NULL, &memory)) != ACRE_OK ||
        (status = acre_copy_sync(device, memory, sent, sizeof sent)) != ACRE_OK ||
        (status = acre_copy_sync(device, back, memory, sizeof back)) != ACRE_OK ||
        (status = acre_free(memory, NULL)) != ACRE_OK) {
        return failed(status);
    }

    if (memcmp(sent, back, sizeof sent) != 0) {
        fputs("the numbers that came back are different\n", stderr);
        return 1;
    }
    printf("%zu bytes went to the device and came back\n", sizeof sent);
    if ((status = acre_close(device)) != ACRE_OK) {
        return failed(status);
    }
    return 0;
}

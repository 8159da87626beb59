/* Opens a device, a GPU if there is one, else the soft device. Then makes one stream wait for
 * another. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>

/* Prints the error and returns the exit code. */
static int failed(const char *what, acre_status status) {
    fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
    return 2;
}

/* Makes `second` wait for the work queued on `first` so far, and the host wait for both. */
static acre_status order(acre_device *device, acre_stream first, acre_stream second,
                         acre_event event) {
    acre_status status = acre_event_record(device, event, first);
    if (status == ACRE_OK) {
        status = acre_stream_wait(device, second, event);
    }
    return status == ACRE_OK ? acre_stream_sync(device, second) : status;
}

int main(void) {
    acre_stream first = NULL, second = NULL;
    acre_event event = NULL;
    acre_status status;

    acre_device *device;
    if ((status = acre_open("auto", NULL, &device)) != ACRE_OK) {
        return failed("acre_open", status);
    }
    acre_device_info info = {.struct_size = sizeof info};
    if ((status = acre_device_get_info(device, &info)) != ACRE_OK) {
        return failed("acre_device_get_info", status);
    }
    printf("%s: %s, %" PRIu64 " MiB\n", info.driver, info.name, info.total_bytes >> 20);

    /* No clean-up after a failure: closing the device destroys these objects, and so does exit. */
    if ((status = acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &first)) != ACRE_OK ||
        (status = acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &second)) != ACRE_OK ||
        (status = acre_event_create(device, ACRE_EVENT_DEFAULT, &event)) != ACRE_OK ||
        (status = order(device, first, second, event)) != ACRE_OK) {
        return failed("streams and events", status);
    }
    puts("two streams, one after the other");
    if ((status = acre_close(device)) != ACRE_OK) {
        return failed("acre_close", status);
    }
    return 0;
}

/* A device lost through a kernel's fault: every call reports it, and closing and exiting still
 * work. The test breaks its device, so it is a separate program and does not run under
 * compute-sanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "gpu_fixture.h"

TEST(gpu_faulting_kernel_loses_the_device) {
    struct gpu *gpu = *state;
    acre_stream stream, another = NULL;
    acre_event event, late = NULL;
    acre_device_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    assert_int_equal(acre_event_create(gpu->dev, ACRE_EVENT_DEFAULT, &event), ACRE_OK);
    gpu_launch(gpu, "ground_fault", 1, 1, stream, NULL);
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_E_DEVICE_LOST);
    assert_non_null(strstr(acre_last_detail(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    assert_int_equal(acre_stream_create(gpu->dev, 0, &another), ACRE_E_DEVICE_LOST);
    assert_null(another);
    assert_int_equal(acre_event_create(gpu->dev, 0, &late), ACRE_E_DEVICE_LOST);
    assert_int_equal(acre_event_record(gpu->dev, event, stream), ACRE_E_DEVICE_LOST);
    assert_int_equal(acre_device_sync(gpu->dev), ACRE_E_DEVICE_LOST);
    assert_int_equal(acre_event_destroy(gpu->dev, event), ACRE_OK); /* records only */
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
    assert_int_equal(acre_device_get_stats(gpu->dev, &stats), ACRE_OK);
    assert_int_equal(stats.streams_live, 0);
    assert_int_equal(stats.events_live, 0);
}

int main(void) {
    return tests_run_with("gpu_devicefault", gpu_setup, gpu_teardown);
}

/* Result codes of the driver: the status of each code, and whether a destroy call with that code
 * released the object. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/driver_status.h"
#include "support/cases.h"

TEST(driver_fail_gives_the_status_of_the_code) {
    static const struct {
        CUresult code;
        acre_status status;
    } cases[] = {
        {CUDA_ERROR_INVALID_VALUE, ACRE_E_DRIVER},
        {CUDA_ERROR_OUT_OF_MEMORY, ACRE_E_DEVICE_MEMORY},
        {CUDA_ERROR_NOT_INITIALIZED, ACRE_E_NO_DRIVER},
        {CUDA_ERROR_STUB_LIBRARY, ACRE_E_NO_DRIVER},
        {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ACRE_E_NO_DRIVER},
        {CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, ACRE_E_DRIVER_OLD},
        {CUDA_ERROR_DEVICE_UNAVAILABLE, ACRE_E_BUSY},
        {CUDA_ERROR_NO_DEVICE, ACRE_E_NO_DEVICE},
        {CUDA_ERROR_INVALID_DEVICE, ACRE_E_NO_DEVICE},
        {CUDA_ERROR_INVALID_CONTEXT, ACRE_E_HANDLE},
        {CUDA_ERROR_INVALID_HANDLE, ACRE_E_HANDLE},
        {CUDA_ERROR_CONTEXT_IS_DESTROYED, ACRE_E_HANDLE},
        {CUDA_ERROR_ECC_UNCORRECTABLE, ACRE_E_DEVICE_LOST},
        {CUDA_ERROR_NVLINK_UNCORRECTABLE, ACRE_E_DEVICE_LOST},
        {CUDA_ERROR_JIT_COMPILER_NOT_FOUND, ACRE_E_DRIVER},
        {CUDA_ERROR_OPERATING_SYSTEM, ACRE_E_SYSTEM},
        {CUDA_ERROR_NOT_READY, ACRE_E_NOT_READY},
        {CUDA_ERROR_ILLEGAL_ADDRESS, ACRE_E_DEVICE_LOST},
        {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, ACRE_E_DRIVER},
        {CUDA_ERROR_ASSERT, ACRE_E_DEVICE_LOST},
        {CUDA_ERROR_TOO_MANY_PEERS, ACRE_E_DRIVER},
        {CUDA_ERROR_LAUNCH_FAILED, ACRE_E_DEVICE_LOST},
        {CUDA_ERROR_NOT_PERMITTED, ACRE_E_UNSUPPORTED},
        {CUDA_ERROR_NOT_SUPPORTED, ACRE_E_UNSUPPORTED},
        {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, ACRE_E_CAPTURING},
        {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, ACRE_E_CAPTURING},
        {CUDA_ERROR_TIMEOUT, ACRE_E_DRIVER},
        {CUDA_ERROR_UNKNOWN, ACRE_E_DRIVER},
        {(CUresult)12345, ACRE_E_DRIVER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(acre__driver_fail(NULL, cases[i].code, "cuTest"), cases[i].status);
    assert_int_equal(acre__driver_fail_host(NULL, CUDA_ERROR_OUT_OF_MEMORY, "cuTest"),
                     ACRE_E_HOST_MEMORY);
    assert_int_equal(acre__driver_fail_host(NULL, CUDA_ERROR_UNKNOWN, "cuTest"), ACRE_E_DRIVER);
}

TEST(driver_fail_names_call_and_code) {
    (void)acre__driver_fail(NULL, CUDA_ERROR_OUT_OF_MEMORY, "cuStreamCreate");
    assert_int_equal(strncmp(acre_last_detail(), "cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2)",
                             strlen("cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2)")),
                     0);
}

TEST(driver_fate_tells_gone_from_refused) {
    assert_int_equal(acre__driver_fate(CUDA_SUCCESS), ACRE__FATE_TAKEN);
    assert_int_equal(acre__driver_fate(CUDA_ERROR_DEINITIALIZED), ACRE__FATE_TAKEN);
    assert_int_equal(acre__driver_fate(CUDA_ERROR_INVALID_HANDLE), ACRE__FATE_UNKNOWN);
    assert_int_equal(acre__driver_fate(CUDA_ERROR_INVALID_CONTEXT), ACRE__FATE_UNKNOWN);
    assert_int_equal(acre__driver_fate(CUDA_ERROR_CONTEXT_IS_DESTROYED), ACRE__FATE_UNKNOWN);
    assert_int_equal(acre__driver_fate(CUDA_ERROR_OUT_OF_MEMORY), ACRE__FATE_REFUSED);
    assert_int_equal(acre__driver_fate(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), ACRE__FATE_REFUSED);
    assert_int_equal(acre__driver_fate(CUDA_ERROR_LAUNCH_FAILED), ACRE__FATE_REFUSED);
}

int main(void) {
    return tests_run("driver_status");
}

/* See cpp_fault.h. The fault wrapper is in src/driver, whose headers are C. */
#include "cpp_fault.h"

#include <stdlib.h>

#include "acre.h"
#include "driver/driver_fault.h"

int cpp_fault_begin(void) {
    acre_device *device;
    setenv("ACRE_FAULT", "*:0", 1);
    if (acre_open("soft", NULL, &device) != ACRE_OK)
        return 0;
    return acre_close(device) == ACRE_OK;
}

void cpp_fault_on(uint32_t nth, int and_later) {
    struct acre__fault_plan plan = {NULL, nth, CUDA_ERROR_OUT_OF_MEMORY,
                                    and_later ? ACRE__FAULT_FROM : ACRE__FAULT_ONCE};
    if (acre__fault_set(&plan) != ACRE_OK)
        abort();
}

uint64_t cpp_fault_off(void) {
    uint64_t fired = acre__fault_fired();
    if (acre__fault_set(NULL) != ACRE_OK)
        abort();
    return fired;
}

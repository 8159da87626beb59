/* acre_suspend and acre_resume. */
#include "acre.h"
#include "base/status.h"

acre_status acre_suspend(acre_device *device, const acre_suspend_options *options,
                         acre_suspended **suspended) {
    (void)device, (void)options;
    *suspended = NULL;
    return acre__fail(ACRE_E_UNSUPPORTED, "not yet");
}

acre_status acre_resume(acre_suspended *suspended) {
    (void)suspended;
    return acre__fail(ACRE_E_UNSUPPORTED, "not yet");
}

acre_status acre_suspend_get_info(const acre_suspended *suspended, acre_suspend_info *info) {
    (void)suspended, (void)info;
    return acre__fail(ACRE_E_UNSUPPORTED, "not yet");
}

acre_status acre_suspend_forget(acre_device *device) {
    (void)device;
    return acre__fail(ACRE_E_UNSUPPORTED, "not yet");
}

/* The space layer's hooks: see space.h. */
#include "space/space.h"

#include "device/device.h"
#include "space/chunk.h"
#include "space/range.h"

static acre_status space_trim(acre_device *dev) {
    (void)acre__chunk_trim(dev);
    acre__range_trim(dev);
    return ACRE_OK;
}

/* Objects have ended already, so what is left waits in limbo. */
static void space_close(acre_device *dev) {
    acre__chunk_end(dev);
    acre__range_end(dev);
}

static void space_stats(acre_device *dev, acre_device_stats *stats) {
    uint64_t taken;
    acre__chunk_stats(dev, stats);
    acre__range_count(dev, &stats->address_bytes, &taken);
}

void acre__space_use(void) {
    static const struct acre__device_hooks hooks = {
        .layer = ACRE__HOOK_BELOW, .trim = space_trim, .close = space_close, .stats = space_stats};
    acre__device_hooks_add(&hooks);
}

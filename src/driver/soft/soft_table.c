/* The soft driver's table: every entry of driver_list.h, all of them real. */
#include "driver/soft/soft_state.h"

static const struct acre__driver soft_driver = {.name = "soft",
                                                .is_soft = 1,
#define SOFT_ENTRY(name, symbol, version, need, params, args) .name = acre__soft_##name,
                                                ACRE__DRIVER_LIST(SOFT_ENTRY)
#undef SOFT_ENTRY
};

const struct acre__driver *acre__driver_soft(void) {
    return &soft_driver;
}

/* The soft driver's table: every entry of driver_list.h. */
#include <pthread.h>

#include "driver/driver_count.h"
#include "soft/soft.h"
#include "soft/soft_api.h"

static struct acre__driver soft_driver = {.name = "soft",
                                          .is_soft = 1,
#define SOFT_ENTRY(name, symbol, version, need, sticky, calls, moved, params, args)                \
    .name = acre__soft_##name,
                                          ACRE__DRIVER_LIST(SOFT_ENTRY)
#undef SOFT_ENTRY
};

static void soft_count(void) {
    acre__driver_count(&soft_driver);
}

const struct acre__driver *acre__driver_soft(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, soft_count);
    return &soft_driver;
}

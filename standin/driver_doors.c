/* The doors of libcuda.so.1: one exported function for each entry of the list, and the table that
 * they share. See driver_doors.h.
 *
 * Locks: none; the table is chosen once and then read without a lock. */
#include "driver_doors.h"

#include <pthread.h>

#include "acre.h"

#include "base/config.h"
#include "caller.h"
#include "driver_forms.h"
#include "driver/driver_fault.h"

/* ---- the table ---- */

static struct {
    pthread_once_t once;
    const struct acre__driver *table;
} doors = {.once = PTHREAD_ONCE_INIT};

static void doors_begin(void) {
    const struct acre__driver *table = acre__driver_soft();
    const char *spec = acre__config_string(ACRE__CONFIG_FAULT);
    struct acre__fault_plan plan;
    if (spec && (acre__fault_parse(spec, &plan) || acre__fault_set(&plan)))
        acre_standin_say_once("ACRE_FAULT", "no call will fail: %s", acre_last_detail());
    else if (spec)
        table = acre__fault_wrap(table);
    doors.table = table;
}

const struct acre__driver *acre__standin_table(void) {
    pthread_once(&doors.once, doors_begin);
    return doors.table;
}

/* ---- the list's doors ---- */

#define DOOR(name, symbol, version, need, params, args)                                            \
    CUresult symbol params {                                                                       \
        struct acre_standin_caller before;                                                         \
        acre_standin_enter(&before, #name, __builtin_return_address(0));                           \
        CUresult result = acre__standin_table()->name args;                                        \
        acre_standin_leave(&before);                                                               \
        return result;                                                                             \
    }
ACRE__DRIVER_LIST(DOOR)

/* ---- found by name ---- */

#define DOOR_ROW(name, symbol, version, need, params, args)                                        \
    {#name, #symbol, version, (standin_function)symbol},

const struct standin_row acre__standin_list_rows[] = {
    ACRE__DRIVER_LIST(DOOR_ROW){NULL, NULL, 0, NULL}};

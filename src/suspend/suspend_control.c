/* Suspending and resuming a program from outside: the words "suspend" and "resume" of the control
 * socket (watch/control.h), for `acre suspend` and `acre resume`.
 *
 * Both apply to all open devices. The process keeps what acre_suspend returned, so that the program
 * that asked may end. If one device cannot be suspended, those before it are resumed. Calls of the
 * program that need the memory wait (ACRE_SUSPEND_WAIT).
 *
 * The arguments of "suspend" are fields, separated by tabs, which neither tags nor paths have:
 *
 *   rest=HOW                  what happens to memory without a rule: keep, file, drop or stay
 *   keep=TAG  file=TAG  drop=TAG  stay=TAG  unchanged=TAG    rules, in their order
 *   folder=PATH  timeout_ms=NUMBER  retain
 *
 * Both answers are JSON: {"devices": [{"device": "cuda:0", "released_bytes": ...}], "ns": ...}. The
 * list is empty if the process has no device open, or nothing was suspended this way. The answer to
 * "suspend" has program_bytes, too (base/pause.h).
 *
 * Locks: none. Only the thread of the control socket runs this code. */
#include <stdio.h>
#include <string.h>

#include "acre.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/pause.h"
#include "base/status.h"
#include "device/device.h"
#include "watch/control.h"
#include "watch/stats_file.h"

void acre__suspend_words(void);

enum { CONTROL_RULES = 32, CONTROL_DEVICES = ACRE__DEVICE_SLOTS };

/* What has been suspended this way. */
struct control_away {
    acre_suspended *suspended; /* NULL: not in use */
    char device[24];
};
static struct control_away control_away[CONTROL_DEVICES];

struct control_wish {
    acre_suspend_options options;
    acre_suspend_rule rules[CONTROL_RULES];
    char text[ACRE__CONTROL_LINE]; /* the rules point into it */
};

/* ---- arguments ---- */

static int control_how(const char *name, acre_suspend_how *how) {
    static const char *const names[] = {[ACRE_SUSPEND_KEEP] = "keep",
                                        [ACRE_SUSPEND_FILE] = "file",
                                        [ACRE_SUSPEND_DROP] = "drop",
                                        [ACRE_SUSPEND_STAY] = "stay"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *how = (acre_suspend_how)i;
            return 1;
        }
    }
    return 0;
}

static acre_status control_rule(struct control_wish *wish, const char *how, const char *tag) {
    acre_suspend_rule rule = {.struct_size = sizeof rule, .tag = tag};
    rule.is_unchanged = strcmp(how, "unchanged") == 0;
    if (!*tag || (!rule.is_unchanged && !control_how(how, &rule.how)))
        return acre__fail(ACRE_E_INVALID, "a request to suspend has no field '%.40s'", how);
    if (wish->options.rule_count == CONTROL_RULES)
        return acre__fail(ACRE_E_INVALID, "a request to suspend has at most %d rules",
                          CONTROL_RULES);
    wish->rules[wish->options.rule_count++] = rule;
    return ACRE_OK;
}

static acre_status control_field(struct control_wish *wish, char *field) {
    char *value = strchr(field, '=');
    if (value)
        *value++ = '\0';
    if (!value && strcmp(field, "retain") == 0) {
        wish->options.flags |= ACRE_SUSPEND_RETAIN;
        return ACRE_OK;
    }
    if (!value)
        return acre__fail(ACRE_E_INVALID, "a request to suspend has no field '%.40s'", field);
    if (strcmp(field, "folder") == 0) {
        wish->options.folder = value;
        return ACRE_OK;
    }
    if (strcmp(field, "timeout_ms") == 0)
        return acre__parse_number(value, &wish->options.timeout_ms)
                   ? acre__fail(ACRE_E_INVALID, "'%.40s' is no number of milliseconds", value)
                   : ACRE_OK;
    if (strcmp(field, "rest") == 0)
        return control_how(value, &wish->options.how)
                   ? ACRE_OK
                   : acre__fail(ACRE_E_INVALID, "memory cannot be suspended as '%.40s'", value);
    return control_rule(wish, field, value);
}

static acre_status control_parse(struct control_wish *wish, const char *arguments) {
    acre_status status = ACRE_OK;
    char *rest = NULL;
    *wish = (struct control_wish){.options = {.struct_size = sizeof wish->options,
                                              .flags = ACRE_SUSPEND_WAIT,
                                              .rules = wish->rules}};
    size_t length = strlen(arguments);
    if (length >= sizeof wish->text)
        return acre__fail(ACRE_E_INVALID, "a request to suspend is too long");
    memcpy(wish->text, arguments, length + 1);
    for (char *field = strtok_r(wish->text, "\t", &rest); field && !status;
         field = strtok_r(NULL, "\t", &rest))
        status = control_field(wish, field);
    return status;
}

/* ---- answers ---- */

/* What the device's default pool holds for cuMemAllocAsync: it stays. */
static uint64_t control_pool_bytes(const acre_device *dev) {
    CUmemoryPool pool;
    uint64_t bytes = 0;
    if (dev->drv->cuDeviceGetDefaultMemPool(&pool, dev->device) ||
        dev->drv->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes))
        return 0;
    return bytes;
}

/* Writes one device, which `dev` is if it is not NULL. Names of devices need no quoting. */
static void control_put(int out, const char *device, const acre_suspend_info *info, int is_first,
                        const acre_device *dev) {
    dprintf(out, "%s{\"device\":\"%s\"", is_first ? "" : ",", device);
    if (dev)
        dprintf(out, ",\"driver_pool_bytes\":%llu", (unsigned long long)control_pool_bytes(dev));
#define CONTROL_FIELD(name, meaning)                                                               \
    dprintf(out, ",\"" #name "\":%llu", (unsigned long long)info->name);
    ACRE_SUSPEND_INFO_LIST(CONTROL_FIELD)
#undef CONTROL_FIELD
    dprintf(out, "}");
}

/* Forgets what ended together with its device. Returns how much is left. */
static unsigned control_count_away(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < CONTROL_DEVICES; i++) {
        struct control_away *away = &control_away[i];
        acre_suspend_info info = {.struct_size = sizeof info};
        if (away->suspended && acre_suspend_get_info(away->suspended, &info) == ACRE_E_HANDLE)
            away->suspended = NULL;
        count += away->suspended != NULL;
    }
    return count;
}

/* The device is opened once more while it is suspended or resumed, so that it is not closed
 * meanwhile. */
static void control_done(acre_device *dev) {
    if (acre__stats_is_on())
        acre__device_export(dev);
    (void)acre_close(dev);
}

/* Resumes everything, and writes what came back if `out` is not -1. Returns the first error; what
 * could not be resumed stays suspended. */
static acre_status control_bring_back(int out) {
    acre_status status = ACRE_OK;
    char detail[512] = "";
    unsigned written = 0;
    for (unsigned i = 0; i < CONTROL_DEVICES; i++) {
        struct control_away *away = &control_away[i];
        acre_suspend_info info = {.struct_size = sizeof info};
        acre_device *dev = NULL;
        if (!away->suspended)
            continue;
        acre_status failed = acre_suspend_get_info(away->suspended, &info);
        if (!failed)
            failed = acre_open(away->device, NULL, &dev);
        if (!failed)
            failed = acre_resume(away->suspended);
        if (!failed || failed == ACRE_E_HANDLE) /* its device was closed: nothing is left to do */
            away->suspended = NULL;
        if (!failed && out >= 0) {
            control_put(out, away->device, &info, !written++, NULL);
        } else if (failed && failed != ACRE_E_HANDLE && !status) {
            status = failed;
            snprintf(detail, sizeof detail, "%s", acre_last_detail());
        }
        if (dev)
            control_done(dev);
    }
    return status ? acre__fail(status, "%s", detail) : ACRE_OK;
}

/* ---- the two words ---- */

/* Suspends a device and writes what left. */
static acre_status control_take(const struct control_wish *wish, int out, struct control_away *away,
                                int is_first) {
    acre_suspend_info info = {.struct_size = sizeof info};
    acre_device *dev;
    acre_status status = acre_open(away->device, NULL, &dev);
    if (status)
        return status;
    status = acre_suspend(dev, &wish->options, &away->suspended);
    if (!status)
        status = acre_suspend_get_info(away->suspended, &info);
    if (!status)
        control_put(out, away->device, &info, is_first, dev);
    control_done(dev);
    return status;
}

static acre_status control_take_away(const struct control_wish *wish, int out) {
    acre_status status = ACRE_OK;
    unsigned count = 0;
    for (acre_device *dev = NULL; !status && (dev = acre__device_next(NULL, dev)); count++) {
        struct control_away *away = &control_away[count];
        snprintf(away->device, sizeof away->device, "%s", dev->label);
        status = control_take(wish, out, away, !count);
    }
    return status;
}

static acre_status control_suspend_all(const struct control_wish *wish, int out) {
    char detail[512];
    if (control_count_away())
        return acre__fail(ACRE_E_SUSPENDED, "it is suspended already; acre resume brings it back");
    dprintf(out, "{\"devices\":[");
    acre_status status = control_take_away(wish, out);
    if (!status)
        return ACRE_OK;
    snprintf(detail, sizeof detail, "%s", acre_last_detail());
    (void)control_bring_back(-1);
    return acre__fail(status, "%s", detail);
}

static acre_status control_suspend(int out, const char *arguments) {
    static struct control_wish wish; /* of the one thread */
    acre_status status = control_parse(&wish, arguments);
    if (status)
        return status;
    uint64_t begun = acre__now_ns();
    acre__pause_hold();
    status = control_suspend_all(&wish, out);
    acre__pause_release();
    if (!status)
        dprintf(out, "],\"program_bytes\":%llu,\"ns\":%llu}\n",
                (unsigned long long)acre__pause_program_bytes(),
                (unsigned long long)(acre__now_ns() - begun));
    return status;
}

static acre_status control_resume(int out, const char *arguments) {
    (void)arguments;
    uint64_t begun = acre__now_ns();
    dprintf(out, "{\"devices\":[");
    acre__pause_hold();
    (void)control_count_away();
    acre_status status = control_bring_back(out);
    acre__pause_release();
    if (!status)
        dprintf(out, "],\"ns\":%llu}\n", (unsigned long long)(acre__now_ns() - begun));
    return status;
}

/* Not static: a program that is linked with the static library gets this file by
 * --undefined=acre__suspend_words. */
__attribute__((constructor)) void acre__suspend_words(void) {
    acre__control_add("suspend", control_suspend);
    acre__control_add("resume", control_resume);
}

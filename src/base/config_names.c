/* Warnings for ACRE_* variables that acre does not know: see config_names.h.
 *
 * Names come from the environment and have any length and content, so they are truncated before
 * they are quoted or compared. A leaf lock guards the list of names already warned about. */
#include "base/config_names.h"

#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"

enum {
    CONFIG_NAME_BYTES = 64, /* bytes of a name that are compared; the table's names are shorter */
    CONFIG_WARNED = 64      /* distinct names warned about; a program with more is broken */
};

/* Hashes of the names warned about: 64-bit hashes of 64 names do not collide in practice. */
static struct {
    struct acre__lock lock;
    uint64_t hashes[CONFIG_WARNED];
    size_t count;
} config_warned = {.lock = ACRE__LOCK_INIT("config", ACRE__RANK_LEAF)};

static const char *config_name(size_t key) {
    return acre__config_name((enum acre__config_key)key);
}

/* Levenshtein distance of two strings of at most CONFIG_NAME_BYTES bytes, computed row by row. */
static size_t config_distance(const char *a, const char *b) {
    size_t row[CONFIG_NAME_BYTES + 1];
    size_t b_bytes = strlen(b);
    for (size_t j = 0; j <= b_bytes; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0]; /* value of the row above, one column to the left */
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_bytes];
}

static const char *config_nearest(const char *name, size_t *distance) {
    const char *nearest = config_name(0);
    *distance = SIZE_MAX;
    for (size_t i = 0; i < ACRE__CONFIG_COUNT; i++) {
        size_t d = config_distance(name, config_name(i));
        if (d >= *distance)
            continue;
        *distance = d;
        nearest = config_name(i);
    }
    return nearest;
}

static int config_starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* 1 if the environment entry `entry`, whose name has `bytes` bytes, is an ACRE_* variable that
 * neither acre nor its test suite reads. */
static int config_is_unknown(const char *entry, size_t bytes) {
    static const char *const passed[] = {"ACRE_BUILD", "ACRE_SOURCE"};
    if (!config_starts_with(entry, "ACRE_") || config_starts_with(entry, "ACRE_TEST_"))
        return 0;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        if (strlen(passed[i]) == bytes && memcmp(entry, passed[i], bytes) == 0)
            return 0;
    for (size_t i = 0; i < ACRE__CONFIG_COUNT; i++)
        if (strlen(config_name(i)) == bytes && memcmp(entry, config_name(i), bytes) == 0)
            return 0;
    return 1;
}

/* Records a name as warned about. Returns 0 if the name was recorded before or the list is full. */
static int config_warn_first(const char *name, size_t bytes) {
    uint64_t hash = acre__hash_bytes(ACRE__HASH_BEGIN, name, bytes);
    for (size_t i = 0; i < config_warned.count; i++)
        if (config_warned.hashes[i] == hash)
            return 0;
    if (config_warned.count == CONFIG_WARNED)
        return 0;
    config_warned.hashes[config_warned.count++] = hash;
    return 1;
}

static void config_warn(const char *entry, size_t bytes) {
    char name[CONFIG_NAME_BYTES + 1];
    size_t kept = bytes < CONFIG_NAME_BYTES ? bytes : CONFIG_NAME_BYTES;
    memcpy(name, entry, kept);
    name[kept] = '\0';

    size_t distance;
    const char *nearest = config_nearest(name, &distance);
    /* A typo changes about a third of the letters after ACRE_ at most. */
    int is_slip = distance <= 1 + (strlen(nearest) - strlen("ACRE_")) / 3;
    acre__log(ACRE_LOG_WARN, "config", "%s%s is not a variable of acre; %s %s%s", name,
              kept < bytes ? "..." : "", is_slip ? "did you mean" : "the nearest is", nearest,
              is_slip ? "?" : "");
}

void acre__config_warn_unknown(void) {
    if (!environ || !acre__log_wanted(ACRE_LOG_WARN))
        return;
    acre__lock_take(&config_warned.lock);
    for (char **entry = environ; *entry; entry++) {
        size_t bytes = strcspn(*entry, "=");
        if (config_is_unknown(*entry, bytes) && config_warn_first(*entry, bytes))
            config_warn(*entry, bytes);
    }
    acre__lock_give(&config_warned.lock);
}

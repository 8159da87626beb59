/* The ACRE_* variables: one table, a reader for each kind of value, and warnings for unknown names.
 *
 * The readers get values from the environment on every call and cache nothing. The environment is
 * untrusted input: names and values have any length and content, so the code truncates them before
 * it quotes or compares them. The readers take no lock. A leaf lock guards the list of names
 * already warned about. As everywhere in C, the program must not call setenv at the same time. */
#include "base/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/status.h"
#include "base/thread.h"

enum config_kind { KIND_TEXT, KIND_BYTES, KIND_NUMBER, KIND_FLAG };

static const char *const config_kind_names[] = {
    [KIND_TEXT] = "text",
    [KIND_BYTES] = "bytes",
    [KIND_NUMBER] = "number",
    [KIND_FLAG] = "yes or no",
};

static const struct {
    const char *name;
    enum config_kind kind;
    const char *meaning;
} config_table[ACRE__CONFIG_COUNT] = {
#define CONFIG_ENTRY(key, kind, meaning) {"ACRE_" #key, KIND_##kind, meaning},
    ACRE__CONFIG_LIST(CONFIG_ENTRY)
#undef CONFIG_ENTRY
};

enum {
    CONFIG_QUOTED = 80,     /* bytes of a value or name that a message quotes */
    CONFIG_NAME_BYTES = 64, /* bytes of a name that are compared; the table's names are shorter */
    CONFIG_WARNED = 64      /* distinct names warned about; a program with more is broken */
};

/* Hashes of the names warned about: 64-bit hashes of 64 names do not collide in practice. */
static struct {
    struct acre__lock lock;
    uint64_t hashes[CONFIG_WARNED];
    size_t count;
} config_warned = {.lock = ACRE__LOCK_INIT("config", ACRE__RANK_LEAF)};

/* ---- Values ---- */

static acre_status config_unreadable(enum acre__config_key key, const char *text,
                                     const char *expected) {
    return acre__fail(ACRE_E_CONFIG, "%s is '%.*s': expected %s", config_table[key].name,
                      CONFIG_QUOTED, text, expected);
}

const char *acre__config_string(enum acre__config_key key) {
    const char *text = getenv(config_table[key].name);
    return text && *text ? text : NULL;
}

acre_status acre__config_bytes(enum acre__config_key key, uint64_t unset, uint64_t *value) {
    *value = unset;
    const char *text = acre__config_string(key);
    if (!text || acre__parse_bytes(text, value) == 0)
        return ACRE_OK;
    return config_unreadable(key, text, "a size below 2^64 such as 4096, 512M or 2GiB");
}

acre_status acre__config_number(enum acre__config_key key, uint64_t unset, uint64_t *value) {
    *value = unset;
    const char *text = acre__config_string(key);
    if (!text || acre__parse_number(text, value) == 0)
        return ACRE_OK;
    return config_unreadable(key, text, "a number below 2^64 such as 42 or 0x2a");
}

acre_status acre__config_flag(enum acre__config_key key, int unset, int *value) {
    *value = unset;
    const char *text = acre__config_string(key);
    if (!text || acre__parse_flag(text, value) == 0)
        return ACRE_OK;
    return config_unreadable(key, text, "0, 1, no, yes, off, on, false or true");
}

acre_status acre_config_describe(size_t index, const char **name, const char **kind,
                                 const char **meaning) {
    if (name)
        *name = NULL;
    if (kind)
        *kind = NULL;
    if (meaning)
        *meaning = NULL;
    acre_status status = acre__enter();
    if (status != ACRE_OK)
        return status;
    if (!name || !kind || !meaning)
        return acre__fail(ACRE_E_NULL, "acre_config_describe: %s is NULL",
                          !name   ? "name"
                          : !kind ? "kind"
                                  : "meaning");
    if (index >= ACRE__CONFIG_COUNT)
        return acre__fail(ACRE_E_INVALID, "acre_config_describe: index %zu of %d variables", index,
                          (int)ACRE__CONFIG_COUNT);
    *name = config_table[index].name;
    *kind = config_kind_names[config_table[index].kind];
    *meaning = config_table[index].meaning;
    return ACRE_OK;
}

/* ---- Names ---- */

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
    const char *nearest = config_table[0].name;
    *distance = SIZE_MAX;
    for (size_t i = 0; i < ACRE__CONFIG_COUNT; i++) {
        size_t d = config_distance(name, config_table[i].name);
        if (d >= *distance)
            continue;
        *distance = d;
        nearest = config_table[i].name;
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
        if (strlen(config_table[i].name) == bytes &&
            memcmp(entry, config_table[i].name, bytes) == 0)
            return 0;
    return 1;
}

/* FNV-1a. */
static uint64_t config_hash(const char *name, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
    return hash;
}

/* Records a name as warned about. Returns 0 if the name was recorded before or the list is full. */
static int config_warn_first(const char *name, size_t bytes) {
    uint64_t hash = config_hash(name, bytes);
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

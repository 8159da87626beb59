/* The ACRE_* variables: one table, and a reader for each kind of value.
 *
 * The readers get values from the environment on every call and cache nothing. The environment is
 * untrusted input: values have any length and content, so the code truncates them before it quotes
 * them. Nothing here takes a lock. As everywhere in C, the program must not call setenv at the same
 * time. */
#include "base/config.h"

#include <stdlib.h>

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

enum { CONFIG_QUOTED = 80 }; /* bytes of a value that a message quotes */

/* ---- Values ---- */

static acre_status config_unreadable(enum acre__config_key key, const char *text,
                                     const char *expected) {
    return acre__fail(ACRE_E_CONFIG, "%s is '%.*s': expected %s", config_table[key].name,
                      CONFIG_QUOTED, text, expected);
}

const char *acre__config_name(enum acre__config_key key) {
    return config_table[key].name;
}

const char *acre__config_string(enum acre__config_key key) {
    const char *text = secure_getenv(config_table[key].name);
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

static acre_status config_describe(size_t index, const char **name, const char **kind,
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

acre_status acre_config_describe(size_t index, const char **name, const char **kind,
                                 const char **meaning) {
    return acre__in_call(config_describe(index, name, kind, meaning), "acre_config_describe");
}

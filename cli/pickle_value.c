/* The values of a pickle: see pickle.h. Numbers and texts are decoded from the file when they are
 * asked for. pickle_read has checked that their bytes exist. */
#include <string.h>

#include "pickle.h"

#define VALUE_PAYLOAD (UINT64_MAX >> 4)

enum pickle_kind pickle_kind(uint64_t value) {
    return (enum pickle_kind)(value >> 60);
}

bool pickle_number(const struct pickle *pickle, uint64_t value, uint64_t *number) {
    if (pickle_kind(value) == PICKLE_SMALL) {
        *number = value & VALUE_PAYLOAD;
        return true;
    }
    const unsigned char *at = pickle->bytes + (value & VALUE_PAYLOAD);
    if (pickle_kind(value) != PICKLE_SCALAR || at[0] != PICKLE_LONG1) {
        return false;
    }
    /* Two's complement: a ninth byte has the sign of a number above 2^63. */
    size_t bytes = at[1];
    if (bytes > 9 || (bytes == 9 && at[10] != 0) || (bytes && bytes < 9 && at[bytes + 1] & 0x80)) {
        return false;
    }
    *number = 0;
    for (size_t i = bytes < 8 ? bytes : 8; i-- > 0;) {
        *number = *number << 8 | at[2 + i];
    }
    return true;
}

bool pickle_is_true(uint64_t value) {
    return pickle_kind(value) == PICKLE_BOOL && (value & VALUE_PAYLOAD) == 1;
}

bool pickle_text(const struct pickle *pickle, uint64_t value, const char **text, size_t *bytes) {
    if (pickle_kind(value) != PICKLE_TEXT) {
        return false;
    }
    const unsigned char *at = pickle->bytes + (value & VALUE_PAYLOAD);
    if (at[0] == PICKLE_SHORT_BINUNICODE) {
        *bytes = at[1];
        *text = (const char *)at + 2;
    } else {
        *bytes = (size_t)at[1] | (size_t)at[2] << 8 | (size_t)at[3] << 16 | (size_t)at[4] << 24;
        *text = (const char *)at + 5;
    }
    return true;
}

size_t pickle_length(const struct pickle *pickle, uint64_t value) {
    enum pickle_kind kind = pickle_kind(value);
    return kind == PICKLE_LIST || kind == PICKLE_TUPLE ? pickle->boxes[value & VALUE_PAYLOAD].count
                                                       : 0;
}

uint64_t pickle_item(const struct pickle *pickle, uint64_t value, size_t index) {
    return pickle->items.at[pickle->boxes[value & VALUE_PAYLOAD].start + index];
}

uint64_t pickle_get(const struct pickle *pickle, uint64_t dict, const char *key) {
    if (pickle_kind(dict) != PICKLE_DICT) {
        return PICKLE_NOTHING;
    }
    const struct pickle_box *box = &pickle->boxes[dict & VALUE_PAYLOAD];
    size_t length = strlen(key), bytes;
    const char *text;
    for (size_t i = 0; i < box->count && i < (size_t)2 * PICKLE_KEYS; i += 2) {
        const uint64_t *item = pickle->items.at + box->start + i;
        if (pickle_text(pickle, item[0], &text, &bytes) && bytes == length &&
            memcmp(text, key, length) == 0) {
            return item[1];
        }
    }
    return PICKLE_NOTHING;
}

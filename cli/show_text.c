/* Text from untrusted files: see show_text.h. */
#include "show_text.h"

#include <stdbool.h>

#include "cli.h"

/* Returns the bytes of a character that a terminal or a page must not get: a control character, or
 * in UTF-8 a control character or a mark that changes the direction of text; 0 for any other. */
static size_t hidden_bytes(const char *text, size_t bytes) {
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < ' ' || c[0] == 0x7f) {
        return 1;
    }
    if (bytes >= 2 &&
        ((c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) || (c[0] == 0xd8 && c[1] == 0x9c))) {
        return 2;
    }
    if (bytes < 3 || c[0] != 0xe2) {
        return 0;
    }
    bool is_mark =
        c[1] == 0x80 && ((c[2] >= 0x8b && c[2] <= 0x8f) || (c[2] >= 0xa8 && c[2] <= 0xae));
    return is_mark || (c[1] == 0x81 && c[2] >= 0xa0 && c[2] <= 0xaf) ? 3 : 0;
}

char *show_text(const char *text, size_t bytes) {
    char *clean = cli_alloc(bytes + 1), *to = clean;
    for (size_t i = 0; i < bytes;) {
        size_t hidden = hidden_bytes(text + i, bytes - i);
        *to++ = hidden ? '?' : text[i];
        i += hidden ? hidden : 1;
    }
    *to = '\0';
    return clean;
}

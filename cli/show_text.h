/* Text from untrusted files, for terminals and pages. */
#ifndef ACRE_CLI_SHOW_TEXT_H
#define ACRE_CLI_SHOW_TEXT_H

#include <stddef.h>

/* Copies a text and replaces control characters, and characters of UTF-8 that change the direction
 * of text, by '?'; the caller frees it. */
char *show_text(const char *text, size_t bytes);

#endif

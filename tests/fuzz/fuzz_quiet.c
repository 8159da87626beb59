/* The tool's functions for messages and memory in quiet forms, for the programs that feed readers.
 */
#include "fuzz_quiet.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static unsigned fuzz_lines;
static char fuzz_line[1024];

void cli_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fuzz_line, sizeof fuzz_line, format, arguments);
    va_end(arguments);
    fuzz_lines++;
}

static void *fuzz_need(void *memory) {
    if (!memory) {
        fputs("fuzz: out of memory\n", stderr);
        abort();
    }
    return memory;
}

void *cli_alloc(size_t bytes) {
    return fuzz_need(calloc(1, bytes ? bytes : 1));
}

char *cli_format(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
    }
    va_end(arguments);
    return fuzz_need(text);
}

void fuzz_check(int good, const char *what, const char *file, int line) {
    if (!good) {
        fprintf(stderr, "%s:%d: not so: %s (last said: %s)\n", file, line, what, fuzz_line);
        abort();
    }
}

void fuzz_begin(void) {
    fuzz_lines = 0;
}

unsigned fuzz_said(void) {
    return fuzz_lines;
}

/* A refusal is one line that begins with the file, and has nothing that steers a terminal. */
void fuzz_check_refusal(int code) {
    FUZZ_CHECK(code == CLI_CANNOT);
    FUZZ_CHECK(fuzz_lines == 1);
    FUZZ_CHECK(strncmp(fuzz_line, "input:", 6) == 0);
    for (const char *c = fuzz_line; *c; c++) {
        FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    }
}

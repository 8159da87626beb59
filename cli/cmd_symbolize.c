/* acre symbolize: replaces addresses such as ./program+0x11d8 in a text by function, file and line.
 *
 * The text is untrusted: any bytes, lines of any length, names of any files. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "frames.h"

enum { FRAME_WORDS = 16 }; /* of a path, at most: a word more is a file to look for */

static uint64_t unresolved; /* frames that stayed as they were */

static const struct argp_option symbolize_options[] = {{0}};

static const char symbolize_doc[] =
    "Replaces addresses in a text by functions, files and lines."
    "\v"
    "Call stacks have frames such as ./program+0x11d8 if ACRE_STACKS is set without\n"
    "ACRE_DEBUG, or if libdw.so.1 was not installed. The command copies the text of\n"
    "FILE, or of standard input, and replaces each such frame by the function and\n"
    "line, such as 'main at main.c:14', or puts the function in front of it if the\n"
    "file has no debug information (cc -g). A frame whose file is missing or has no\n"
    "symbols either stays. An argument that is itself a frame is resolved alone.\n"
    "\n"
    "Needs libdw.so.1 (Debian and Ubuntu: libdw1).\n"
    "\n"
    "Examples:\n"
    "  ACRE_LOG=stderr ACRE_STACKS=8 ./program 2>&1 | acre symbolize\n"
    "  acre symbolize program.log\n"
    "  acre symbolize ./program+0x11d8\n"
    "\n"
    "Exit status:\n"
    "  0   the text was copied\n"
    "  1   an argument could not be resolved\n"
    "  2   the file cannot be read\n"
    "  64  wrong usage\n";

/* Returns true if the text in front of a frame, from `line` on, ends with "<function> in ", where
 * the function is the one that `text` begins with. */
static bool is_named(const char *line, const char *frame, const char *text, const char *separator) {
    const char *end = strstr(text, separator);
    size_t length = end ? (size_t)(end - text) : 0, front = (size_t)(frame - line);
    return end && front >= length + 4 && memcmp(frame - 4, " in ", 4) == 0 &&
           memcmp(frame - 4 - length, text, length) == 0;
}

/* Returns the end of the path of the frame [begin, end): a path, "+0x" and hexadecimal digits,
 * whose value goes to `offset`. NULL if it is no frame. */
static const char *frame_split(const char *begin, const char *end, uint64_t *offset) {
    const char *digits = end;
    while (digits > begin && strchr("0123456789abcdef", digits[-1])) {
        digits--;
    }
    size_t length = (size_t)(end - digits);
    if (length < 1 || length > 16 || digits - begin < 4 || memcmp(digits - 3, "+0x", 3) != 0) {
        return NULL;
    }
    *offset = strtoull(digits, NULL, 16);
    return digits - 3;
}

/* Returns what replaces a frame with the path [begin, end), allocated: only the file and line if
 * the text from `line` on ends with its name already. NULL if the frame is unknown. */
static char *frame_text(const char *line, const char *begin, const char *end, uint64_t offset) {
    bool has_line = false;
    char *text = frame_resolve(begin, (size_t)(end - begin), offset, &has_line);
    const char *separator = has_line ? " at " : " in ";
    if (text && is_named(line, begin, text, separator)) {
        const char *rest = strstr(text, separator) + strlen(separator);
        memmove(text, rest, strlen(rest) + 1);
    }
    return text;
}

static bool is_around(char c) {
    return strchr(" \t\r\n()[]<>,;\"'", c) != NULL; /* or 0 */
}

/* As frame_text, for the frame whose last word is at `begin`. The path may begin some words
 * earlier, behind `done`; then sets `begin`. */
static char *frame_search(const char *line, const char *done, const char **begin, const char *end,
                          uint64_t offset) {
    const char *at = *begin;
    for (int words = 1; words <= FRAME_WORDS; words++) {
        char *text = frame_text(line, at, end, offset);
        if (text) {
            *begin = at;
            return text;
        }
        do {
            if (at == done) {
                return NULL;
            }
            at--;
        } while (is_around(*at) || (at > done && !is_around(at[-1])));
    }
    return NULL;
}

/* Copies a line word by word. Words end at blanks, tabs and line breaks; a frame may be in brackets
 * or be followed by punctuation. A path may contain all of these. */
static void line_print(const char *line, size_t length, FILE *out) {
    const char *at = line, *end = line + length, *done = line;
    while (at < end) {
        const char *begin = at;
        while (at < end && !is_around(*at)) {
            at++;
        }
        uint64_t offset;
        const char *path_end = frame_split(begin, at, &offset);
        char *text = path_end ? frame_search(line, done, &begin, path_end, offset) : NULL;
        unresolved += path_end && !text;
        if (text) {
            fwrite(done, 1, (size_t)(begin - done), out);
            fputs(text, out);
            free(text);
            done = at;
        }
        while (at < end && is_around(*at)) {
            at++;
        }
    }
    fwrite(done, 1, (size_t)(end - done), out);
}

static int symbolize_stream(FILE *in, const char *name) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, in)) > 0) {
        line_print(line, (size_t)length, stdout);
    }
    int error = ferror(in) ? errno : 0;
    free(line);
    if (error) {
        cli_say("%.200s: %s", name, strerror(error));
    }
    return error ? CLI_CANNOT : CLI_OK;
}

static int symbolize_one(const char *word) {
    if (strcmp(word, "-") == 0) {
        return symbolize_stream(stdin, "standard input");
    }
    FILE *file = fopen(word, "re");
    if (file) {
        int result = symbolize_stream(file, word);
        fclose(file);
        return result;
    }
    int error = errno;
    uint64_t offset;
    const char *path_end = frame_split(word, word + strlen(word), &offset);
    char *text = path_end ? frame_text(word, word, path_end, offset) : NULL;
    if (text) {
        puts(text);
        free(text);
        return CLI_OK;
    }
    if (strstr(word, "+0x")) {
        cli_say("%.200s: the file is missing or has no symbol for this address", word);
        return CLI_FINDING;
    }
    cli_say("%.200s: %s", word, strerror(error));
    return CLI_CANNOT;
}

struct symbolize_args {
    char **words;
    int count;
};

static error_t symbolize_parse(int key, char *arg, struct argp_state *state) {
    struct symbolize_args *args = state->input;
    (void)arg;
    if (key != ARGP_KEY_ARGS) {
        return ARGP_ERR_UNKNOWN;
    }
    args->words = state->argv + state->next;
    args->count = state->argc - state->next;
    return 0;
}

int cmd_symbolize(int argc, char **argv) {
    static const struct argp argp = {.options = symbolize_options,
                                     .parser = symbolize_parse,
                                     .args_doc = "[FILE|FRAME...]",
                                     .doc = symbolize_doc};
    struct symbolize_args args = {0};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    if (!frames_are_possible()) {
        cli_say(
            "libdw.so.1 is not installed: install it (Debian and Ubuntu: apt-get install libdw1)");
        return CLI_CANNOT;
    }
    int result = args.count ? CLI_OK : symbolize_stream(stdin, "standard input");
    for (int i = 0; i < args.count; i++) {
        int one = symbolize_one(args.words[i]);
        result = one > result ? one : result;
    }
    frames_close();
    if (unresolved && result == CLI_OK) {
        cli_say("%" PRIu64 " %s not resolved: the file is not here, or has no "
                "symbols",
                unresolved, unresolved == 1 ? "frame was" : "frames were");
    }
    return result;
}

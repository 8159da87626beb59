/* acre symbolize: replaces addresses such as ./program+0x11d8 in a text by function, file and line.
 *
 * The text is untrusted: any bytes, lines of any length, names of any files. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "frames.h"

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

/* Resolves the frame in [begin, end): a path, "+0x" and hexadecimal digits. A frame that has its
 * name in front already, in the text from `line` on, becomes file and line, or stays. Returns false
 * if it is no frame, is unknown or stays. */
static bool frame_print(const char *line, const char *begin, const char *end, FILE *out) {
    const char *digits = end;
    while (digits > begin && strchr("0123456789abcdef", digits[-1])) {
        digits--;
    }
    size_t length = (size_t)(end - digits);
    if (length < 1 || length > 16 || digits - begin < 4 || memcmp(digits - 3, "+0x", 3) != 0) {
        return false;
    }
    bool has_line = false, is_news = true;
    char *text =
        frame_resolve(begin, (size_t)(digits - 3 - begin), strtoull(digits, NULL, 16), &has_line);
    if (!text) {
        unresolved++;
        return false;
    }
    if (!is_named(line, begin, text, has_line ? " at " : " in ")) {
        fputs(text, out);
    } else if (has_line) {
        fputs(strstr(text, " at ") + strlen(" at "), out);
    } else {
        is_news = false;
    }
    free(text);
    return is_news;
}

/* Copies a line word by word. Words end at blanks, tabs and line breaks; a frame may be in brackets
 * or be followed by punctuation. */
static void line_print(const char *line, size_t length, FILE *out) {
    static const char around[] = " \t\r\n()[]<>,;\"'";
    const char *at = line, *end = line + length;
    while (at < end) {
        const char *word = at;
        while (at < end && *at && !strchr(around, *at)) {
            at++;
        }
        if (at > word && !frame_print(line, word, at, out)) {
            fwrite(word, 1, (size_t)(at - word), out);
        }
        while (at < end && (!*at || strchr(around, *at))) {
            fputc(*at++, out);
        }
    }
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
    if (frame_print(word, word, word + strlen(word), stdout)) {
        fputc('\n', stdout);
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

/* Messages, numbers and JSON of the tool, independent of any command.
 *
 * Out of memory ends the tool with a message: the tool has no state that would be lost. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

/* ---- standard streams and messages ----------------------------------------------------------- */

/* Runs at exit, also after argp's --help: truncated output must not look complete. */
static void output_check_stdout(void) {
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0) {
        failed = true;
    }
    if (failed) {
        cli_say("cannot write to standard output: %s",
                errno ? strerror(errno) : "an earlier write failed");
        _exit(CLI_CANNOT);
    }
}

void cli_streams_init(void) {
    /* Stdin is opened for writing and stdout for reading, so that using one still fails as if it
     * were closed. Only stderr can be written: its text has nowhere else to go. */
    static const int mode[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", mode[fd]) < 0) {
            _exit(CLI_CANNOT);
        }
    }
    if (atexit(output_check_stdout) != 0) {
        _exit(CLI_CANNOT);
    }
}

bool cli_is_terminal(FILE *stream) {
    const char *term = getenv("TERM");
    return !(term && strcmp(term, "dumb") == 0) && isatty(fileno(stream));
}

bool cli_colour(FILE *stream) {
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && *no_color) && cli_is_terminal(stream);
}

void cli_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("acre: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

const char *cli_advice(acre_status status) {
    switch (status) {
    case ACRE_E_NO_DRIVER:
        return "install NVIDIA's driver for a GPU, or use the CPU with --device soft";
    case ACRE_E_DRIVER_OLD:
        return "update NVIDIA's driver, or use the CPU with --device soft";
    case ACRE_E_NO_DEVICE:
        return "'acre info' lists the available devices";
    case ACRE_E_CONFIG:
        return "correct or unset that variable; 'acre --help' lists all variables";
    case ACRE_E_DEVICE_LOST:
        return "the device was lost: run the command again; if it is lost again, look for NVRM "
               "lines in dmesg and reset the GPU";
    case ACRE_E_HOST_MEMORY:
    case ACRE_E_ADDRESS_SPACE:
        return "lower ACRE_SOFT_BYTES or ACRE_ADDRESS_BYTES, or raise the limit (ulimit -v)";
    case ACRE_E_DEVICE_MEMORY:
        return "free memory on the device: other processes may hold it";
    case ACRE_E_INVALID:
        return "a device is called auto, cuda, cuda:1, soft or soft:1";
    default:
        return "run 'acre doctor' to find the cause";
    }
}

const char *cli_detail(void) {
    const char *detail = acre_last_detail();
    size_t name = strspn(detail, "abcdefghijklmnopqrstuvwxyz0123456789_");
    int is_call = strncmp(detail, "acre_", 5) == 0 && strncmp(detail + name, ": ", 2) == 0;
    return is_call ? detail + name + 2 : detail;
}

void cli_say_reason(const char *what, acre_status status) {
    const char *detail = cli_detail();
    if (*detail && status == ACRE_E_NO_DRIVER) { /* the detail says the same, with the library */
        cli_say("%s: %s", what, detail);
    } else if (*detail) {
        cli_say("%s: %s (%s)", what, acre_status_text(status), detail);
    } else {
        cli_say("%s: %s", what, acre_status_text(status));
    }
}

void cli_say_failure(const char *what, acre_status status) {
    cli_say_reason(what, status);
    cli_say("what to do: %s", cli_advice(status));
}

static void output_log(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    fprintf(stderr, "acre: %s: %s: %s\n", level == ACRE_LOG_ERROR ? "error" : "warning", area,
            line);
}

void cli_log_to_stderr(void) {
    (void)acre_log_set(output_log, NULL, ACRE_LOG_WARN);
}

static void *output_need(void *memory) {
    if (!memory) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    return memory;
}

void *cli_alloc(size_t bytes) {
    return output_need(calloc(1, bytes ? bytes : 1));
}

static char *output_vformat(const char *format, va_list arguments) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        text = NULL;
    }
    return output_need(text);
}

char *cli_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = output_vformat(format, arguments);
    va_end(arguments);
    return text;
}

size_t cli_distance(const char *a, const char *b) {
    enum { ROOM = 32 }; /* longer words are cut: no known word is as long */
    size_t row[ROOM + 1];
    size_t a_length = strnlen(a, ROOM), b_length = strnlen(b, ROOM);
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[b_length];
}

/* ---- numbers --------------------------------------------------------------------------------- */

const char *cli_bytes(uint64_t bytes, char text[CLI_NUMBER_BYTES]) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t power = 0;
    double value = (double)bytes;
    while (value >= 1024 && power + 1 < sizeof unit / sizeof unit[0]) {
        value /= 1024;
        power++;
    }
    bool whole = bytes % (UINT64_C(1) << (10 * power)) == 0;
    snprintf(text, CLI_NUMBER_BYTES, "%.*f %s", whole ? 0 : 1, value, unit[power]);
    return text;
}

const char *cli_duration(uint64_t nanoseconds, char text[CLI_NUMBER_BYTES]) {
    double value = (double)nanoseconds;
    if (nanoseconds < 1000) {
        snprintf(text, CLI_NUMBER_BYTES, "%" PRIu64 " ns", nanoseconds);
    } else if (value < 1e6) {
        snprintf(text, CLI_NUMBER_BYTES, "%.1f us", value / 1e3);
    } else if (value < 1e9) {
        snprintf(text, CLI_NUMBER_BYTES, "%.1f ms", value / 1e6);
    } else {
        snprintf(text, CLI_NUMBER_BYTES, "%.2f s", value / 1e9);
    }
    return text;
}

const char *cli_driver_version(uint32_t version, char text[CLI_NUMBER_BYTES]) {
    snprintf(text, CLI_NUMBER_BYTES, "%" PRIu32 ".%" PRIu32, version / 1000, version % 1000 / 10);
    return text;
}

const char *cli_date(char text[CLI_NUMBER_BYTES]) {
    time_t now = time(NULL);
    struct tm day = {0};
    gmtime_r(&now, &day);
    strftime(text, CLI_NUMBER_BYTES, "%Y-%m-%d", &day);
    return text;
}

char *cli_device_note(const acre_device_info *info) {
    char date[CLI_NUMBER_BYTES];
    return cli_format("%s:%" PRIu32 ", %s; %s", info->driver, info->ordinal, info->name,
                      cli_date(date));
}

uint64_t cli_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void cli_sleep(double seconds) {
    struct timespec pause = {.tv_sec = (time_t)seconds};
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    while (nanosleep(&pause, &pause) && errno == EINTR) {
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_t *cli_json_text(const char *text) {
    json_t *value = json_string(text);
    if (value) {
        return value;
    }
    char *ascii = cli_format("%s", text);
    for (char *c = ascii; *c; c++) {
        if ((unsigned char)*c >= 0x80) {
            *c = '?';
        }
    }
    value = json_string(ascii);
    free(ascii);
    return output_need(value);
}

json_t *cli_json_number(uint64_t value) {
    return output_need(json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

void cli_json_set(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, output_need(value)) != 0) {
        output_need(NULL);
    }
}

void cli_json_append(json_t *array, json_t *value) {
    if (json_array_append_new(array, output_need(value)) != 0) {
        output_need(NULL);
    }
}

json_t *cli_json_begin(const char *schema) {
    json_t *root = output_need(json_object());
    cli_json_set(root, "schema", cli_json_text(schema));
    cli_json_set(root, "version", cli_json_text(acre_version()));
    return root;
}

void cli_json_end(json_t *value) {
    /* A failed write is detected at exit, since stdout keeps its error flag. */
    (void)json_dumpf(value, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(value);
}

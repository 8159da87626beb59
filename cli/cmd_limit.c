/* acre limit: shows or changes the memory limit of a program under `acre run --limit`. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "cli.h"
#include "run_limit.h"

enum { LIMIT_NAME_BYTES = 64 };

struct limit_args {
    bool json, is_set;
    long pid; /* 0: not given */
    uint64_t bytes;
};

/* A copy of the file, whose fields processes may change at any time. */
struct limit_row {
    int64_t pid;
    uint64_t used, other;
    char name[LIMIT_NAME_BYTES];
};

struct limit_view {
    pid_t tool;
    uint64_t limit, used;
    bool is_each, is_all;
    size_t count;
    struct limit_row rows[LIMIT_SLOTS];
};

static const struct argp_option limit_options[] = {
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-limit/1)", 0}, {0}};

static const char limit_doc[] =
    "Shows or changes the memory limit of a program that runs under 'acre run --limit'."
    "\v"
    "PID is 'acre run' itself or any process that runs under it. Without SIZE the\n"
    "command prints the limit, the memory in use, and the processes that have it.\n"
    "\n"
    "With SIZE it sets the limit of this run. The change takes effect at once.\n"
    "Memory in use stays allocated: if the new limit is below it, requests fail\n"
    "with CUDA_ERROR_OUT_OF_MEMORY until enough was freed.\n"
    "\n"
    "Only the user of the program may do this, or root: the kernel requires ptrace\n"
    "access to 'acre run'.\n"
    "\n"
    "Examples:\n"
    "  acre run --limit 20GiB -- python3 train.py &\n"
    "  acre limit $!\n"
    "  acre limit $! 30GiB\n"
    "  acre limit --json $! | jq .used_bytes\n"
    "\n"
    "Exit status:\n"
    "  0   the limit was printed or changed\n"
    "  2   there is no such process, it has no limit, or it is another user's\n"
    "  64  wrong usage\n";

static void limit_parse_pid(struct argp_state *state, const char *text, struct limit_args *args) {
    uint64_t pid = 0;
    if (acre__parse_number(text, &pid) != 0 || !pid || pid > INT32_MAX) {
        argp_error(state, "PID is the number of a process, not '%s'", text);
    }
    args->pid = (long)pid;
}

static void limit_parse_size(struct argp_state *state, const char *text, struct limit_args *args) {
    if (acre__parse_bytes(text, &args->bytes) != 0 || args->bytes < LIMIT_LEAST ||
        args->bytes > LIMIT_MOST) {
        argp_error(state, LIMIT_SIZES, "SIZE is", text);
    }
    args->is_set = true;
}

static error_t limit_parse(int key, char *arg, struct argp_state *state) {
    struct limit_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) {
            limit_parse_pid(state, arg, args);
        } else if (state->arg_num == 1) {
            limit_parse_size(state, arg, args);
        } else {
            argp_error(state, "too many arguments");
        }
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no process given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Reads the name of a process; any program can set its own. */
static void limit_read_name(int64_t pid, char name[LIMIT_NAME_BYTES]) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/comm", (long long)pid);
    FILE *in = fopen(path, "re");
    size_t length = in ? fread(name, 1, LIMIT_NAME_BYTES - 1, in) : 0;
    if (in) {
        (void)fclose(in);
    }
    name[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        if (name[i] < ' ' || name[i] == 0x7f) {
            name[i] = i + 1 == length ? '\0' : '?';
        }
    }
}

static int limit_is_larger(const void *a, const void *b) {
    const struct limit_row *x = a, *y = b;
    return x->used == y->used ? (x->pid > y->pid) - (x->pid < y->pid) : x->used < y->used ? 1 : -1;
}

/* Copies the file without the slots of processes that have ended. It takes no lock: the file may be
 * another user's. */
static void limit_look(struct limit_file *file, struct limit_view *view) {
    view->limit = atomic_load(&file->limit);
    view->is_each = file->flags & LIMIT_EACH;
    view->is_all = file->flags & LIMIT_ALL;
    for (size_t i = 0; i < LIMIT_SLOTS; i++) {
        int64_t pid = atomic_load(&file->slots[i].pid);
        if (pid > 0 && !acre__limit_has_ended(&file->slots[i])) {
            struct limit_row *row = &view->rows[view->count++];
            *row = (struct limit_row){.pid = pid,
                                      .used = atomic_load(&file->slots[i].used),
                                      .other = atomic_load(&file->slots[i].other)};
            view->used += row->used;
            limit_read_name(pid, row->name);
        }
    }
    qsort(view->rows, view->count, sizeof view->rows[0], limit_is_larger);
}

static void limit_print_json(const struct limit_view *view) {
    json_t *root = cli_json_begin("acre-limit/1"), *rows = json_array();
    cli_json_set(root, "pid", cli_json_number((uint64_t)view->tool));
    cli_json_set(root, "limit_bytes", cli_json_number(view->limit));
    cli_json_set(root, "used_bytes", cli_json_number(view->used));
    cli_json_set(root, "each", json_boolean(view->is_each));
    cli_json_set(root, "all", json_boolean(view->is_all));
    for (size_t i = 0; i < view->count; i++) {
        json_t *row = json_object();
        cli_json_set(row, "pid", cli_json_number((uint64_t)view->rows[i].pid));
        cli_json_set(row, "program", cli_json_text(view->rows[i].name));
        cli_json_set(row, "used_bytes", cli_json_number(view->rows[i].used));
        cli_json_set(row, "other_bytes", cli_json_number(view->rows[i].other));
        cli_json_append(rows, row);
    }
    cli_json_set(root, "processes", rows);
    cli_json_end(root);
}

static void limit_print(const struct limit_view *view) {
    static const char *const titles[] = {">PID", ">USED", "PROGRAM"};
    static const char *const titles_all[] = {">PID", ">USED", ">CONTEXT, MODULES", "PROGRAM"};
    enum { TITLES = sizeof titles / sizeof titles[0] };
    char limit[CLI_NUMBER_BYTES], used[CLI_NUMBER_BYTES];
    struct cli_table table;
    printf("limit %s%s, used %s\n", cli_bytes(view->limit, limit),
           view->is_each ? " for each process" : "", cli_bytes(view->used, used));
    if (!view->count) {
        return;
    }
    cli_table_begin(&table, view->is_all ? titles_all : titles, TITLES + (view->is_all ? 1 : 0));
    for (size_t i = 0; i < view->count; i++) {
        cli_table_cell(&table, CLI_PLAIN, "%" PRId64, view->rows[i].pid);
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(view->rows[i].used, used));
        if (view->is_all) {
            cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(view->rows[i].other, used));
        }
        cli_table_cell(&table, CLI_PLAIN, "%s", view->rows[i].name);
    }
    cli_table_end(&table);
}

int cmd_limit(int argc, char **argv) {
    static const struct argp argp = {.options = limit_options,
                                     .parser = limit_parse,
                                     .args_doc = "PID [SIZE]",
                                     .doc = limit_doc};
    static struct limit_view view;
    struct limit_args args = {0};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    struct limit_file *file = run_limit_find((pid_t)args.pid, &view.tool);
    if (!file) {
        return CLI_CANNOT;
    }
    if (args.is_set) {
        acre__limit_set(file, args.bytes);
    }
    limit_look(file, &view);
    if (args.json) {
        limit_print_json(&view);
    } else {
        limit_print(&view);
    }
    return CLI_OK;
}

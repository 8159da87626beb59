/* `acre top --once` and --json: see top_text.h. */
#include <inttypes.h>
#include <string.h>

#include "top_text.h"

/* ---- text ------------------------------------------------------------------------------------ */

static void print_cards(const struct top_state *state) {
    static const char *const titles[] = {"CARD", ">USED", ">TOTAL", ">USE", ">BUSY", "NAME"};
    char text[TOP_TEXT_BYTES];
    struct cli_table table;
    if (!state->card_count) {
        return;
    }
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < state->card_count; i++) {
        const struct top_card *card = &state->cards[i];
        double part = card->total ? 100.0 * (double)card->used / (double)card->total : 0;
        cli_table_cell(&table, CLI_BOLD, "GPU %u", card->index);
        cli_table_cell(&table, CLI_PLAIN, "%s", top_bytes(card->used, text));
        cli_table_cell(&table, CLI_PLAIN, "%s", top_bytes(card->total, text));
        cli_table_cell(&table, part >= 90 ? CLI_RED : CLI_PLAIN, "%.0f %%", part);
        if (card->busy_percent < 0) {
            cli_table_cell(&table, CLI_PLAIN, "-");
        } else {
            cli_table_cell(&table, CLI_PLAIN, "%d %%", card->busy_percent);
        }
        cli_table_cell(&table, CLI_PLAIN, "%s", card->name);
    }
    cli_table_end(&table);
    putchar('\n');
}

static void print_figures(struct cli_table *table, const struct top_figures *figures) {
    char text[TOP_TEXT_BYTES];
    cli_table_cell(table, CLI_PLAIN, "%s", top_bytes(figures->live, text));
    cli_table_cell(table, CLI_PLAIN, "%s", top_bytes(figures->held, text));
    cli_table_cell(table, CLI_PLAIN, "%s", top_bytes(figures->peak, text));
}

static void print_rates(struct cli_table *table, const struct top_figures *figures) {
    char text[TOP_TEXT_BYTES];
    cli_table_cell(table, CLI_PLAIN, "%s", top_rate(figures->alloc_rate, text));
    cli_table_cell(table, CLI_PLAIN, "%s", top_byte_rate(figures->byte_rate, text));
}

/* NVML does not know whether a process is suspended. */
static const char *print_state(const struct top_process *process) {
    return process->suspended ? "suspended" : process->is_published ? "running" : "-";
}

static size_t print_processes(const struct top_state *state, const char *filter) {
    static const char *const titles[] = {">PID",  "CARD",  "STATE",    ">LIVE",    ">HELD",
                                         ">PEAK", ">AWAY", ">ALLOC/S", ">BYTES/S", "PROGRAM"};
    char text[TOP_TEXT_BYTES];
    struct cli_table table;
    size_t count = 0;
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < state->process_count; i++) {
        const struct top_process *process = &state->processes[i];
        if (!top_matches(process, filter)) {
            continue;
        }
        count++;
        cli_table_cell(&table, process->is_published ? CLI_BOLD : CLI_PLAIN, "%" PRId64,
                       process->pid);
        cli_table_cell(&table, CLI_PLAIN, "%s", process->cards[0] ? process->cards : "-");
        cli_table_cell(&table, process->suspended ? CLI_BOLD : CLI_PLAIN, "%s",
                       print_state(process));
        print_figures(&table, &process->figures);
        cli_table_cell(&table, CLI_PLAIN, "%s",
                       process->suspended ? top_bytes(process->suspended, text) : "-");
        print_rates(&table, &process->figures);
        cli_table_cell(&table, CLI_PLAIN, "%s", process->command);
    }
    if (count) {
        cli_table_end(&table);
    }
    return count;
}

/* One table for each kind of holders. */
static void print_holders(const struct top_process *process, const char *filter) {
    for (enum acre__stats_kind kind = ACRE__STATS_DEVICE; kind <= ACRE__STATS_MEMORY; kind++) {
        const char *titles[] = {top_kind_title(kind), ">LIVE",   ">HELD", ">PEAK", ">LIMIT",
                                ">ALLOC/S",           ">BYTES/S"};
        char text[TOP_TEXT_BYTES];
        struct cli_table table;
        size_t count = 0;
        cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
        for (size_t i = 0; i < process->holder_count; i++) {
            const struct top_holder *holder = &process->holders[i];
            if (holder->kind != kind || !top_holder_matches(holder, filter)) {
                continue;
            }
            count++;
            cli_table_cell(&table, CLI_BOLD, "%s", holder->name);
            print_figures(&table, &holder->figures);
            cli_table_cell(&table, CLI_PLAIN, "%s",
                           top_bytes(holder->limit ? holder->limit : TOP_UNKNOWN, text));
            print_rates(&table, &holder->figures);
        }
        if (count) {
            putchar('\n');
            cli_table_end(&table);
        }
    }
}

static void print_process(const struct top_process *process, const char *filter) {
    char live[TOP_TEXT_BYTES], held[TOP_TEXT_BYTES], peak[TOP_TEXT_BYTES], age[TOP_TEXT_BYTES];
    printf("process %" PRId64 ": %s\n", process->pid, process->command);
    printf("live %s, held %s, peak %s", top_bytes(process->figures.live, live),
           top_bytes(process->figures.held, held), top_bytes(process->figures.peak, peak));
    if (process->suspended) {
        printf(", suspended %s", top_bytes(process->suspended, age));
    }
    if (process->card_bytes != TOP_UNKNOWN) {
        printf(", on its cards %s", top_bytes(process->card_bytes, live));
    }
    if (!process->is_published) {
        puts("; it publishes no statistics");
        return;
    }
    printf("; started %s ago, acre %s", top_age(process->started_ns, age), process->library);
    printf(", last written %s ago\n", top_age(process->refreshed_ns, age));
    print_holders(process, filter);
    if (process->rows_missing) {
        printf("\n%u more pools or tags did not fit into the file\n", process->rows_missing);
    }
}

static const struct top_process *print_find(const struct top_state *state, int64_t pid) {
    for (size_t i = 0; i < state->process_count; i++) {
        if (state->processes[i].pid == pid) {
            return &state->processes[i];
        }
    }
    cli_say("process %" PRId64 " publishes no statistics: start it with ACRE_STATS=1 or 'acre run'",
            pid);
    return NULL;
}

int top_print(const struct top_state *state, const char *filter, int64_t pid) {
    char note[512];
    if (pid) {
        const struct top_process *process = print_find(state, pid);
        if (process) {
            print_process(process, filter);
        }
        return process ? CLI_OK : CLI_CANNOT;
    }
    print_cards(state);
    if (!print_processes(state, filter)) {
        puts(*filter && state->process_count
                 ? "no process matches the filter"
                 : "no process publishes statistics: start one with ACRE_STATS=1 or 'acre run'");
    }
    if (top_note(&state->files, note, sizeof note)) {
        cli_say("%s", note);
    }
    return CLI_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *json_bytes(uint64_t value) {
    return value == TOP_UNKNOWN ? json_null() : cli_json_number(value);
}

static json_t *json_rate(double value) {
    return value < 0 ? json_null() : json_real(value);
}

static void json_figures(json_t *out, const struct top_figures *figures) {
    cli_json_set(out, "live_bytes", json_bytes(figures->live));
    cli_json_set(out, "held_bytes", json_bytes(figures->held));
    cli_json_set(out, "peak_bytes", json_bytes(figures->peak));
    cli_json_set(out, "allocs", json_bytes(figures->allocs));
    cli_json_set(out, "alloc_bytes", json_bytes(figures->alloc_bytes));
    cli_json_set(out, "allocs_per_s", json_rate(figures->alloc_rate));
    cli_json_set(out, "alloc_bytes_per_s", json_rate(figures->byte_rate));
}

static json_t *json_card(const struct top_card *card) {
    json_t *out = json_object();
    cli_json_set(out, "index", cli_json_number(card->index));
    cli_json_set(out, "name", cli_json_text(card->name));
    cli_json_set(out, "pci", cli_json_text(card->bus));
    cli_json_set(out, "total_bytes", cli_json_number(card->total));
    cli_json_set(out, "used_bytes", cli_json_number(card->used));
    cli_json_set(out, "busy_percent",
                 card->busy_percent < 0 ? json_null()
                                        : cli_json_number((uint64_t)card->busy_percent));
    return out;
}

static json_t *json_holder(const struct top_holder *holder) {
    static const char *const kinds[] = {"", "device", "pool", "tag", "memory"};
    json_t *out = json_object();
    cli_json_set(out, "kind", cli_json_text(kinds[holder->kind]));
    cli_json_set(out, "id", cli_json_number(holder->id));
    cli_json_set(out, "name", cli_json_text(holder->name));
    cli_json_set(out, "is_host", json_boolean(holder->is_host));
    json_figures(out, &holder->figures);
    cli_json_set(out, "live_blocks", json_bytes(holder->blocks));
    cli_json_set(out, "limit_bytes", holder->limit ? cli_json_number(holder->limit) : json_null());
    if (holder->kind == ACRE__STATS_DEVICE) {
        cli_json_set(out, "total_bytes", cli_json_number(holder->total));
        cli_json_set(out, "suspended_bytes", cli_json_number(holder->suspended));
    }
    return out;
}

static json_t *json_process(const struct top_process *process) {
    json_t *out = json_object(), *holders = json_array();
    cli_json_set(out, "pid", cli_json_number((uint64_t)process->pid));
    cli_json_set(out, "program", cli_json_text(process->program));
    cli_json_set(out, "command", cli_json_text(process->command));
    cli_json_set(out, "is_published", json_boolean(process->is_published));
    cli_json_set(out, "cards", cli_json_text(process->cards));
    cli_json_set(out, "card_bytes", json_bytes(process->card_bytes));
    json_figures(out, &process->figures);
    cli_json_set(out, "state",
                 process->is_published ? cli_json_text(print_state(process)) : json_null());
    cli_json_set(out, "suspended_bytes",
                 process->is_published ? cli_json_number(process->suspended) : json_null());
    if (process->is_published) {
        cli_json_set(out, "library", cli_json_text(process->library));
        cli_json_set(out, "started_ns", cli_json_number(process->started_ns));
        cli_json_set(out, "refreshed_ns", cli_json_number(process->refreshed_ns));
        cli_json_set(out, "rows_missing", cli_json_number(process->rows_missing));
    }
    for (size_t i = 0; i < process->holder_count; i++) {
        cli_json_append(holders, json_holder(&process->holders[i]));
    }
    cli_json_set(out, "holders", holders);
    return out;
}

int top_print_json(const struct top_state *state, const char *filter, int64_t pid,
                   double interval_s) {
    if (pid && !print_find(state, pid)) {
        return CLI_CANNOT;
    }
    json_t *root = cli_json_begin("acre-top/1"), *cards = json_array(), *processes = json_array();
    cli_json_set(root, "interval_s", json_real(interval_s));
    cli_json_set(root, "has_nvml", json_boolean(state->has_nvml));
    cli_json_set(root, "damaged_files", cli_json_number(state->files.damaged));
    cli_json_set(root, "refused_folders", cli_json_number(state->files.refused));
    cli_json_set(root, "left_out_files", cli_json_number(state->files.left_out));
    for (size_t i = 0; i < state->card_count; i++) {
        cli_json_append(cards, json_card(&state->cards[i]));
    }
    for (size_t i = 0; i < state->process_count; i++) {
        const struct top_process *process = &state->processes[i];
        if (pid ? process->pid == pid : top_matches(process, filter)) {
            cli_json_append(processes, json_process(process));
        }
    }
    cli_json_set(root, "cards", cards);
    cli_json_set(root, "processes", processes);
    cli_json_end(root);
    fflush(stdout);
    return CLI_OK;
}

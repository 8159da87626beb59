/* The state of `acre top`: see top_model.h. The folders and files belong to the user, but any
 * program of the user may write anything into them: the numbers of files, processes and rows are
 * bounded, and a process may end at any time. */
#include "top_model.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "stats_read.h"
#include "top_files.h"
#include "top_nvml.h"

enum {
    TOP_ROWS = 16384, /* of all processes together */
    TOP_DEVICES = 64, /* of one process, that are added up; acre has no more */
    TOP_SEARCH = 1024 /* rows of the last reading among which a row is searched */
};

/* A reading in progress. */
struct top_reading {
    struct top_state *state; /* new */
    size_t rows;
    size_t room; /* of state->processes */
};

/* ---- processes ------------------------------------------------------------------------------- */

/* Reads a file of /proc as text; 0 bytes in it become spaces. Empty if it cannot be read. Returns
 * the length of the text up to the first 0 byte. */
static size_t proc_read(int64_t pid, const char *what, char *text, size_t room) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/%s", pid, what);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, room - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    size_t length = got > 0 ? (size_t)got : 0;
    while (length && (text[length - 1] == '\0' || text[length - 1] == '\n')) {
        length--;
    }
    text[length] = '\0';
    size_t first = strlen(text);
    for (size_t i = first; i < length; i++) {
        text[i] = text[i] ? text[i] : ' ';
    }
    stats_text_clean(text, room);
    return first;
}

/* The command line without the folders of the program. These may have spaces; so may the title that
 * a program writes over its arguments, whose slashes are no folders. */
static void process_name(struct top_process *process) {
    char text[TOP_COMMAND_BYTES];
    size_t first = proc_read(process->pid, "cmdline", text, sizeof text);
    if (!process->program[0]) {
        (void)proc_read(process->pid, "comm", process->program, sizeof process->program);
    }
    const char *slash = memrchr(text, '/', first);
    if (!slash || strncmp(slash + 1, process->program, strlen(process->program)) != 0) {
        slash = memrchr(text, '/', strcspn(text, " "));
    }
    snprintf(process->command, sizeof process->command, "%s", slash ? slash + 1 : text);
    if (!process->command[0]) {
        snprintf(process->command, sizeof process->command, "%s",
                 process->program[0] ? process->program : "?");
    }
    if (!process->program[0]) {
        snprintf(process->program, sizeof process->program, "%.*s",
                 (int)strcspn(process->command, " "), process->command);
    }
}

static struct top_process *process_find(const struct top_state *state, int64_t pid) {
    for (size_t i = 0; i < state->process_count; i++) {
        if (state->processes[i].pid == pid) {
            return &state->processes[i];
        }
    }
    return NULL;
}

static struct top_process *process_add(struct top_reading *reading, int64_t pid) {
    struct top_state *state = reading->state;
    if (state->process_count == reading->room) {
        reading->room = reading->room ? 2 * reading->room : 16;
        struct top_process *all = cli_alloc(reading->room * sizeof *all);
        if (state->process_count) {
            memcpy(all, state->processes, state->process_count * sizeof *all);
        }
        free(state->processes);
        state->processes = all;
    }
    struct top_process *process = &state->processes[state->process_count++];
    *process = (struct top_process){.pid = pid, .card_bytes = TOP_UNKNOWN};
    return process;
}

/* ---- holders --------------------------------------------------------------------------------- */

/* Returns a counter of a row by its name; `missing` if the row has none. */
static uint64_t row_value(const struct acre__stats_names *names, const struct acre__stats_row *row,
                          const char *counter, uint64_t missing) {
    for (uint64_t i = 0; i < names->count; i++) {
        if (strcmp(names->counters[i], counter) == 0) {
            return row->values[i];
        }
    }
    return missing;
}

/* Sums that cannot overflow: the values of a file may be anything. */
static uint64_t sum_of(uint64_t a, uint64_t b) {
    const uint64_t most = INT64_MAX;
    return a > most || b > most - a ? most : a + b;
}

static uint64_t known(uint64_t value) {
    return value == TOP_UNKNOWN ? 0 : value;
}

static uint64_t most_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Whether the name of a pool ("soft:0 pinned default") or of a kind of memory is that of memory of
 * the host. */
static bool name_is_host(const char *name) {
    const char *space = strchr(name, ' ');
    const char *word = space && strncmp(name, "in ", 3) != 0 ? space + 1 : name;
    return strncmp(word, "pinned", 6) == 0 || strncmp(word, "mapped", 6) == 0;
}

static void holder_read(struct top_holder *holder, const struct acre__stats_names *names,
                        const struct acre__stats_row *row) {
    struct top_figures *figures = &holder->figures;
    holder->kind = (enum acre__stats_kind)row->kind;
    holder->id = row->id;
    snprintf(holder->name, sizeof holder->name, "%s", row->name);
    snprintf(holder->card, sizeof holder->card, "%s", row->card);
    holder->blocks = row_value(names, row, "live_blocks", TOP_UNKNOWN);
    holder->limit = row_value(names, row, "limit_bytes", 0);
    figures->live = row_value(names, row, "live_bytes", TOP_UNKNOWN);
    figures->held = row_value(names, row, "held_bytes", TOP_UNKNOWN);
    figures->peak = row_value(names, row, "peak_bytes", TOP_UNKNOWN);
    figures->allocs = row_value(names, row, "allocs", TOP_UNKNOWN);
    figures->alloc_bytes = row_value(names, row, "alloc_bytes", TOP_UNKNOWN);
    if (holder->kind == ACRE__STATS_DEVICE) {
        holder->total = row_value(names, row, "total_bytes", 0);
        holder->mem = row_value(names, row, "mem_bytes", 0);
        holder->suspended = row_value(names, row, "suspended_bytes", 0);
        figures->held = sum_of(row_value(names, row, "chunk_bytes", 0), holder->mem);
    } else if (holder->kind == ACRE__STATS_POOL) {
        figures->peak = row_value(names, row, "held_peak_bytes", TOP_UNKNOWN);
        holder->is_host = name_is_host(row->name);
    } else if (holder->kind == ACRE__STATS_MEMORY) {
        figures->held = figures->live;
        holder->is_host = name_is_host(row->name);
    }
}

static struct top_holder *holder_add(struct top_process *process) {
    if (process->holder_count == process->holder_room) {
        process->holder_room = process->holder_room ? 2 * process->holder_room : 16;
        struct top_holder *all = cli_alloc(process->holder_room * sizeof *all);
        if (process->holder_count) {
            memcpy(all, process->holders, process->holder_count * sizeof *all);
        }
        free(process->holders);
        process->holders = all;
    }
    return &process->holders[process->holder_count++];
}

/* Appends the rows of a file to the holders of its process. */
static void holders_read(struct top_reading *reading, struct top_process *process,
                         const struct stats_view *view) {
    struct acre__stats_row row;
    for (size_t i = 0; i < view->header.row_count && reading->rows < TOP_ROWS; i++) {
        if (stats_row(view, i, &row) && row.kind <= ACRE__STATS_MEMORY) {
            struct top_holder *holder = holder_add(process);
            holder_read(holder, &view->header.kinds[row.kind], &row);
            holder->file = process->files;
            reading->rows++;
        }
    }
}

static void file_read(void *user, const struct stats_view *view) {
    struct top_reading *reading = user;
    const struct acre__stats_header *header = &view->header;
    struct top_process *process = process_find(reading->state, header->pid);
    if (!process) {
        process = process_add(reading, header->pid);
        process->started_ns = header->started_ns;
        snprintf(process->program, sizeof process->program, "%s", header->program);
        snprintf(process->library, sizeof process->library, "%s", header->library);
    }
    process->is_published = true;
    if (header->started_ns < process->started_ns) {
        process->started_ns = header->started_ns;
    }
    process->refreshed_ns = most_of(process->refreshed_ns, stats_refreshed_ns(view));
    process->rows_missing += header->rows_missing < 1000000 ? header->rows_missing : 0;
    holders_read(reading, process, view);
    process->files++;
}

/* ---- cards ----------------------------------------------------------------------------------- */

/* Compares addresses on the PCI bus: CUDA and NVML write the domain with different lengths. */
static bool bus_is_same(const char *a, const char *b) {
    unsigned x[4], y[4];
    return sscanf(a, "%x:%x:%x.%x", &x[0], &x[1], &x[2], &x[3]) == 4 &&
           sscanf(b, "%x:%x:%x.%x", &y[0], &y[1], &y[2], &y[3]) == 4 && memcmp(x, y, sizeof x) == 0;
}

/* Adds a card to the list of a process: "GPU 0,1" or "soft:0". */
static void cards_add(struct top_process *process, const char *word, const char *number) {
    size_t length = strlen(process->cards), word_length = strlen(word);
    if (!length) {
        snprintf(process->cards, sizeof process->cards, "%s%s", word, number);
        return;
    }
    for (const char *at = process->cards; (at = strstr(at, number)); at += strlen(number)) {
        char after = at[strlen(number)];
        if ((after == '\0' || after == ',') && at > process->cards && strchr(" :,", at[-1])) {
            return;
        }
    }
    bool is_same = strncmp(process->cards, word, word_length) == 0;
    snprintf(process->cards + length, sizeof process->cards - length, ",%s%s", is_same ? "" : word,
             number);
}

static void cards_name(const struct top_state *state, struct top_process *process) {
    char number[16];
    for (size_t i = 0; i < process->holder_count; i++) {
        const struct top_holder *holder = &process->holders[i];
        const char *colon = strchr(holder->name, ':');
        bool is_found = false;
        if (holder->kind == ACRE__STATS_MEMORY && holder->card[0] && !process->cards[0]) {
            snprintf(process->cards, sizeof process->cards, "%.8s", holder->card);
        }
        if (holder->kind != ACRE__STATS_DEVICE) {
            continue;
        }
        for (size_t k = 0; k < state->card_count && !is_found; k++) {
            is_found = bus_is_same(holder->card, state->cards[k].bus);
            if (is_found) {
                snprintf(number, sizeof number, "%u", state->cards[k].index);
                cards_add(process, "GPU ", number);
            }
        }
        if (!is_found && colon && colon[1]) { /* an empty number would be found everywhere */
            char word[16];
            snprintf(word, sizeof word, "%.*s:", (int)(colon - holder->name) % 12, holder->name);
            snprintf(number, sizeof number, "%.8s", colon + 1);
            cards_add(process, word, number);
        }
    }
}

static void nvml_merge(struct top_reading *reading) {
    struct top_state *state = reading->state;
    struct top_nvml now;
    state->has_nvml = top_nvml_look(&now);
    memcpy(state->cards, now.cards, now.card_count * sizeof now.cards[0]);
    state->card_count = now.card_count;
    for (size_t i = 0; i < state->process_count; i++) {
        cards_name(state, &state->processes[i]);
    }
    for (size_t i = 0; i < now.use_count; i++) {
        char number[16];
        struct top_process *process = process_find(state, now.uses[i].pid);
        if (!process) {
            process = process_add(reading, now.uses[i].pid);
        }
        if (now.uses[i].bytes != TOP_UNKNOWN) {
            process->card_bytes = sum_of(known(process->card_bytes), now.uses[i].bytes);
        }
        snprintf(number, sizeof number, "%u", now.cards[now.uses[i].card].index);
        if (!process->is_published || !process->cards[0]) {
            cards_add(process, "GPU ", number);
        }
    }
    free(now.uses);
}

/* ---- figures --------------------------------------------------------------------------------- */

/* A pool holds what is suspended, but the device does not. */
static uint64_t less_of(uint64_t held, uint64_t suspended) {
    return held > suspended ? held - suspended : 0;
}

/* A device's figures are written less often than those of its pools, which are part of them. */
static void device_follow_pools(const struct top_process *process, struct top_holder *device) {
    size_t length = strlen(device->name);
    uint64_t held = 0;
    for (size_t i = 0; i < process->holder_count && length; i++) {
        const struct top_holder *pool = &process->holders[i];
        if (pool->kind == ACRE__STATS_POOL && pool->file == device->file && !pool->is_host &&
            strncmp(pool->name, device->name, length) == 0 && pool->name[length] == ' ') {
            held = sum_of(held, known(pool->figures.held));
        }
    }
    held = sum_of(less_of(held, device->suspended), device->mem);
    device->figures.held = most_of(device->figures.held, held);
    device->figures.peak = most_of(known(device->figures.peak), device->figures.held);
}

/* What acre's devices and pools have, and what the driver has given; the second includes the first
 * if a program has both. */
static void process_add_up(struct top_process *process) {
    struct top_figures acre = {0}, memory = {0}, *out = &process->figures;
    uint64_t pools_held = 0, devices_held = 0, devices_peak = 0;
    unsigned devices = 0;
    for (size_t i = 0; i < process->holder_count; i++) {
        struct top_holder *holder = &process->holders[i];
        const struct top_figures *its = &holder->figures;
        uint64_t peak = known(its->peak);
        if (holder->kind == ACRE__STATS_DEVICE && devices++ < TOP_DEVICES) {
            device_follow_pools(process, holder);
            devices_held = sum_of(devices_held, its->held);
            devices_peak = sum_of(devices_peak, its->peak);
            acre.live = sum_of(acre.live, holder->mem);
            process->suspended = sum_of(process->suspended, holder->suspended);
        } else if (holder->kind == ACRE__STATS_POOL || holder->kind == ACRE__STATS_MEMORY) {
            bool is_pool = holder->kind == ACRE__STATS_POOL;
            struct top_figures *sum = is_pool ? &acre : &memory;
            sum->allocs = sum_of(sum->allocs, known(its->allocs));
            sum->alloc_bytes = sum_of(sum->alloc_bytes, known(its->alloc_bytes));
            if (!holder->is_host) {
                sum->live = sum_of(sum->live, known(its->live));
                sum->peak = most_of(sum->peak, peak);
                pools_held = sum_of(pools_held, is_pool ? known(its->held) : 0);
            }
        }
    }
    acre.held = most_of(devices_held, less_of(pools_held, process->suspended));
    *out = (struct top_figures){.live = most_of(acre.live, memory.live),
                                .held = most_of(acre.held, memory.live),
                                .peak = most_of(most_of(acre.peak, devices_peak), memory.peak),
                                .allocs = most_of(acre.allocs, memory.allocs),
                                .alloc_bytes = most_of(acre.alloc_bytes, memory.alloc_bytes)};
    out->peak = most_of(out->peak, out->held);
}

static uint64_t figures_main(const struct top_figures *figures) {
    return figures->held == TOP_UNKNOWN ? figures->live : figures->held;
}

static double rate_of(uint64_t before, uint64_t now, double seconds) {
    return before == TOP_UNKNOWN || now == TOP_UNKNOWN || now < before || seconds <= 0
               ? -1
               : (double)(now - before) / seconds;
}

/* Sets rates and history from the reading before, if there is one. */
static void figures_follow(struct top_figures *now, const struct top_figures *before,
                           double seconds) {
    now->alloc_rate = now->byte_rate = -1;
    if (before) {
        now->alloc_rate = rate_of(before->allocs, now->allocs, seconds);
        now->byte_rate = rate_of(before->alloc_bytes, now->alloc_bytes, seconds);
        now->history = before->history;
    }
    struct top_history *history = &now->history;
    if (figures_main(now) == TOP_UNKNOWN) {
        return;
    }
    if (history->count == TOP_HISTORY) {
        memmove(history->values, history->values + 1,
                (TOP_HISTORY - 1) * sizeof history->values[0]);
        history->count--;
    }
    history->values[history->count++] = figures_main(now);
}

static const struct top_holder *holder_before(const struct top_process *before, size_t *from,
                                              const struct top_holder *holder) {
    /* Rows keep their places, so the next one is likely the right one. */
    for (size_t i = 0; before && i < before->holder_count && i < TOP_SEARCH; i++) {
        size_t at = (*from + i) % before->holder_count;
        const struct top_holder *old = &before->holders[at];
        if (old->kind == holder->kind && old->id == holder->id && old->file == holder->file &&
            strcmp(old->name, holder->name) == 0) {
            *from = at + 1;
            return old;
        }
    }
    return NULL;
}

static void process_follow(struct top_process *process, const struct top_process *before,
                           double seconds) {
    if (before && (before->started_ns != process->started_ns ||
                   before->is_published != process->is_published)) {
        before = NULL; /* another process has the number */
    }
    if (process->is_published) {
        process_add_up(process);
        if (before) { /* also peaks that only this tool has seen */
            process->figures.peak = most_of(process->figures.peak, before->figures.peak);
        }
    } else {
        process->figures = (struct top_figures){.live = TOP_UNKNOWN,
                                                .held = process->card_bytes,
                                                .peak = TOP_UNKNOWN,
                                                .allocs = TOP_UNKNOWN,
                                                .alloc_bytes = TOP_UNKNOWN};
    }
    figures_follow(&process->figures, before ? &before->figures : NULL, seconds);
    size_t from = 0;
    for (size_t i = 0; i < process->holder_count; i++) {
        const struct top_holder *old = holder_before(before, &from, &process->holders[i]);
        figures_follow(&process->holders[i].figures, old ? &old->figures : NULL, seconds);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

void top_end(struct top_state *state) {
    for (size_t i = 0; i < state->process_count; i++) {
        free(state->processes[i].holders);
    }
    free(state->processes);
    *state = (struct top_state){0};
}

void top_look(struct top_state *state) {
    struct top_state fresh = {.read_ns = cli_now_ns()};
    struct top_reading reading = {.state = &fresh};
    top_files_read(file_read, &reading, &fresh.files);
    nvml_merge(&reading);
    double seconds = state->read_ns ? (double)(fresh.read_ns - state->read_ns) / 1e9 : 0;
    for (size_t i = 0; i < fresh.process_count; i++) {
        struct top_process *process = &fresh.processes[i];
        process_name(process);
        process_follow(process, process_find(state, process->pid), seconds);
    }
    top_end(state);
    *state = fresh;
}

/* Drawing of `acre top`: see top_draw.h.
 *
 * Columns that do not fit the terminal are left out, the least important ones first. All texts are
 * printable ASCII, except for sparklines. */
#include "top_draw.h"

#include <inttypes.h>
#include <langinfo.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>

#include "top_text.h"

enum { DRAW_GREEN = 1, DRAW_YELLOW, DRAW_RED, DRAW_CYAN };
enum {
    DRAW_PROGRAM_LEAST = 12,
    DRAW_HOLDER_LEAST = 24,
    DRAW_TREND_MOST = 30,
    DRAW_CARDS_MOST = 8,
    DRAW_GAP = 1
};

enum draw_what {
    DRAW_PID,
    DRAW_CARD,
    DRAW_LIVE,
    DRAW_HELD,
    DRAW_PEAK,
    DRAW_LIMIT,
    DRAW_ALLOCS,
    DRAW_BYTES,
    DRAW_TREND,
    DRAW_NAME
};

struct draw_column {
    const char *title;
    enum draw_what what;
    int width;
    unsigned rank; /* 0: always shown; the others while they fit, by rank */
    bool is_left;
};

static const struct draw_column draw_process[] = {
    {"PID", DRAW_PID, 7, 0, false},        {"CARD", DRAW_CARD, 7, 2, true},
    {"LIVE", DRAW_LIVE, 10, 0, false},     {"HELD", DRAW_HELD, 10, 0, false},
    {"PEAK", DRAW_PEAK, 10, 1, false},     {"ALLOC/S", DRAW_ALLOCS, 7, 3, false},
    {"BYTES/S", DRAW_BYTES, 10, 5, false}, {"TREND", DRAW_TREND, 10, 4, true},
    {"PROGRAM", DRAW_NAME, 0, 0, true}};
static const struct draw_column draw_holder[] = {
    {"LIVE", DRAW_LIVE, 10, 0, false},     {"HELD", DRAW_HELD, 10, 0, false},
    {"PEAK", DRAW_PEAK, 10, 1, false},     {"LIMIT", DRAW_LIMIT, 10, 5, false},
    {"ALLOC/S", DRAW_ALLOCS, 7, 2, false}, {"BYTES/S", DRAW_BYTES, 10, 4, false},
    {"TREND", DRAW_TREND, 10, 3, true},    {"", DRAW_NAME, 0, 0, true}};
enum { DRAW_COLUMNS = 9 };

/* The columns of a table that fit, and their widths; 0: left out. */
struct draw_layout {
    const struct draw_column *columns;
    size_t count;
    int width[DRAW_COLUMNS];
};

/* What a line shows. */
struct draw_line {
    const struct top_process *process; /* NULL: a holder, or a title */
    const struct top_holder *holder;
    const char *name;
    const struct top_figures *figures; /* NULL: a title */
};

/* ---- the terminal ---------------------------------------------------------------------------- */

void top_draw_begin(struct top_view *view) {
    view->is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    view->has_colour = cli_colour(stdout) && has_colors() && start_color() == OK;
    if (view->has_colour) {
        (void)use_default_colors();
        init_pair(DRAW_GREEN, COLOR_GREEN, -1);
        init_pair(DRAW_YELLOW, COLOR_YELLOW, -1);
        init_pair(DRAW_RED, COLOR_RED, -1);
        init_pair(DRAW_CYAN, COLOR_CYAN, -1);
    }
}

static attr_t draw_colour(const struct top_view *view, int pair) {
    return view->has_colour ? (attr_t)COLOR_PAIR(pair) : 0;
}

/* Draws at most `width` columns of a text of ASCII. Returns the column behind it. */
static int draw_text(int y, int x, int width, attr_t style, const char *text) {
    int length = (int)strlen(text);
    length = length < width ? length : width;
    if (length > 0 && x < COLS) {
        attron(style);
        mvaddnstr(y, x, text, length < COLS - x ? length : COLS - x);
        attroff(style);
    }
    return x + (length > 0 ? length : 0);
}

/* Draws a text that ends at the right edge, if it leaves `left` columns free. */
static void draw_right(int y, int left, attr_t style, const char *text) {
    int x = COLS - (int)strlen(text);
    if (x >= left) {
        (void)draw_text(y, x, COLS, style, text);
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The last column has at least `least` columns, if there are so many. */
static struct draw_layout layout_fit(const struct draw_column *columns, size_t count, int least) {
    struct draw_layout layout = {.columns = columns, .count = count};
    int left = COLS - least, trend = -1, name = -1;
    for (unsigned rank = 0; rank <= 5; rank++) {
        for (size_t i = 0; i < count; i++) {
            bool fits =
                columns[i].rank == rank && (rank == 0 || left >= columns[i].width + DRAW_GAP);
            if (fits && columns[i].what != DRAW_NAME) {
                layout.width[i] = columns[i].width;
                left -= columns[i].width + DRAW_GAP;
            }
            trend = fits && columns[i].what == DRAW_TREND ? (int)i : trend;
            name = columns[i].what == DRAW_NAME ? (int)i : name;
        }
    }
    /* Of what is left, names get the first 28 columns, then the trend grows. */
    int more = trend >= 0 && left > 28 ? left - 28 : 0;
    int most = DRAW_TREND_MOST - (trend >= 0 ? layout.width[trend] : 0);
    more = more < most ? more : most;
    if (trend >= 0 && more > 0) {
        layout.width[trend] += more;
        left -= more;
    }
    layout.width[name] = left + least > 1 ? left + least : 1;
    return layout;
}

static const char *cell_text(const struct top_view *view, const struct draw_line *line,
                             enum draw_what what, int width, char text[TOP_SPARK_BYTES]) {
    const struct top_figures *figures = line->figures;
    switch (what) {
    case DRAW_PID:
        snprintf(text, TOP_SPARK_BYTES, "%" PRId64, line->process ? line->process->pid : 0);
        return text;
    case DRAW_CARD:
        return line->process && line->process->cards[0] ? line->process->cards : "-";
    case DRAW_LIVE:
        return top_bytes(figures->live, text);
    case DRAW_HELD:
        return top_bytes(figures->held, text);
    case DRAW_PEAK:
        return top_bytes(figures->peak, text);
    case DRAW_LIMIT:
        return top_bytes(line->holder && line->holder->limit ? line->holder->limit : TOP_UNKNOWN,
                         text);
    case DRAW_ALLOCS:
        return top_rate(figures->alloc_rate, text);
    case DRAW_BYTES:
        return top_byte_rate(figures->byte_rate, text);
    case DRAW_TREND:
        return top_spark(&figures->history, (size_t)width, view->is_utf8, text);
    case DRAW_NAME:
        break;
    }
    return line->name;
}

static bool what_is_sorted(enum draw_what what, enum top_sort sort) {
    static const enum draw_what columns[TOP_SORTS] = {DRAW_HELD,   DRAW_LIVE, DRAW_PEAK,
                                                      DRAW_ALLOCS, DRAW_PID,  DRAW_NAME};
    return columns[sort] == what;
}

/* The titles; the column that orders the rows is underlined. */
static void draw_titles(const struct top_view *view, const struct draw_layout *layout, int y,
                        const char *name) {
    int x = 0;
    for (size_t i = 0; i < layout->count; i++) {
        const struct draw_column *column = &layout->columns[i];
        int width = layout->width[i];
        const char *title = column->what == DRAW_NAME ? name : column->title;
        int length = (int)strlen(title) < width ? (int)strlen(title) : width;
        attr_t style = A_BOLD | draw_colour(view, DRAW_CYAN);
        if (width == 0) {
            continue;
        }
        if (what_is_sorted(column->what, view->options->sort)) {
            style |= A_UNDERLINE;
        }
        (void)draw_text(y, column->is_left ? x : x + width - length, length, style, title);
        x += width + DRAW_GAP;
    }
}

static void draw_row(const struct top_view *view, const struct draw_layout *layout, int y,
                     const struct draw_line *line, attr_t style) {
    char text[TOP_SPARK_BYTES];
    int x = 0;
    if (style & A_REVERSE) {
        attron(style);
        mvhline(y, 0, ' ', COLS);
        attroff(style);
    }
    for (size_t i = 0; i < layout->count; i++) {
        const struct draw_column *column = &layout->columns[i];
        int width = layout->width[i];
        if (width == 0) {
            continue;
        }
        const char *cell = cell_text(view, line, column->what, width, text);
        int length = (int)strlen(cell);
        if (column->what == DRAW_TREND) { /* UTF-8: its bytes are not its columns */
            attron(style | draw_colour(view, DRAW_GREEN));
            mvaddstr(y, x, cell);
            attroff(style | draw_colour(view, DRAW_GREEN));
        } else {
            int at = column->is_left || length > width ? x : x + width - length;
            (void)draw_text(y, at, width, style, cell);
        }
        x += width + DRAW_GAP;
    }
}

/* ---- the top of the screen ------------------------------------------------------------------- */

/* "[|||||      ]", coloured by how full it is. */
static int draw_bar(const struct top_view *view, int y, int x, int width, double part) {
    int filled = (int)(part * (width - 2) + 0.5);
    int pair = part < 0.7 ? DRAW_GREEN : part < 0.9 ? DRAW_YELLOW : DRAW_RED;
    (void)draw_text(y, x, 1, A_BOLD, "[");
    attron(draw_colour(view, pair));
    if (filled > 0) {
        mvhline(y, x + 1, '|', filled < width - 2 ? filled : width - 2);
    }
    attroff(draw_colour(view, pair));
    (void)draw_text(y, x + width - 1, 1, A_BOLD, "]");
    return x + width + 1;
}

static void draw_card(const struct top_view *view, int y, const char *label, const char *name,
                      uint64_t used, uint64_t total, int busy_percent) {
    char text[160], used_text[TOP_TEXT_BYTES], total_text[TOP_TEXT_BYTES];
    double part = total ? (double)used / (double)total : 0;
    int x = draw_text(y, 0, 12, A_BOLD, label) + 1, bar = COLS >= 100 ? 32 : COLS >= 70 ? 22 : 0;
    x = x < 7 ? 7 : x;
    x = bar ? draw_bar(view, y, x, bar, part < 1 ? part : 1) : x;
    snprintf(text, sizeof text, "%s of %s (%.0f %%)", top_bytes(used, used_text),
             top_bytes(total, total_text), 100 * part);
    x = draw_text(y, x, COLS, 0, text) + 2;
    if (busy_percent >= 0 && COLS >= 70) {
        snprintf(text, sizeof text, "busy %d %%", busy_percent);
        x = draw_text(y, x, COLS, 0, text) + 2;
    }
    (void)draw_text(y, x, COLS - x, A_DIM, name);
}

/* All soft devices together: each process has its own. Returns false if there is none. */
static bool draw_soft(const struct top_view *view, int y) {
    uint64_t held = 0, total = 0;
    unsigned count = 0;
    char name[64];
    for (size_t i = 0; i < view->state.process_count; i++) {
        const struct top_process *process = &view->state.processes[i];
        for (size_t k = 0; k < process->holder_count; k++) {
            const struct top_holder *holder = &process->holders[k];
            if (holder->kind == ACRE__STATS_DEVICE && strncmp(holder->name, "soft:", 5) == 0) {
                count++;
                held += holder->figures.held >> 8; /* no sum of hostile numbers overflows */
                total += holder->total >> 8;
            }
        }
    }
    snprintf(name, sizeof name, "%u soft device%s", count, count == 1 ? "" : "s");
    if (count) {
        draw_card(view, y, "soft", name, (held << 8) & INT64_MAX, (total << 8) & INT64_MAX, -1);
    }
    return count != 0;
}

/* Returns the line below. */
static int draw_head(const struct top_view *view) {
    const struct top_state *state = &view->state;
    const struct top_options *options = view->options;
    char text[256];
    size_t count = 0, published = 0;
    for (size_t i = 0; i < state->process_count; i++) {
        count += top_matches(&state->processes[i], options->filter);
        published += state->processes[i].is_published;
    }
    int x = draw_text(0, 0, COLS, A_BOLD, "acre top") + 2;
    if (*options->filter) {
        snprintf(text, sizeof text, "%zu of %zu processes match \"%s\"", count,
                 state->process_count, options->filter);
    } else if (published < state->process_count) {
        snprintf(text, sizeof text, "%zu process%s, %zu of them publish", state->process_count,
                 state->process_count == 1 ? "" : "es", published);
    } else {
        snprintf(text, sizeof text, "%zu process%s", published, published == 1 ? "" : "es");
    }
    x = draw_text(0, x, COLS - x, 0, text) + 2;
    snprintf(text, sizeof text, "by %s%s, every %g s%s", top_sort_names[options->sort],
             options->is_reversed ? " reversed" : "", options->interval_s,
             view->is_paused ? ", PAUSED" : "");
    draw_right(0, x, view->is_paused ? A_BOLD : A_DIM, text);
    int y = 1, most = LINES / 3 < DRAW_CARDS_MOST ? LINES / 3 : DRAW_CARDS_MOST;
    for (size_t i = 0; i < state->card_count && y <= most; i++) {
        const struct top_card *card = &state->cards[i];
        snprintf(text, sizeof text, "GPU %u", card->index);
        draw_card(view, y++, text, card->name, card->used, card->total, card->busy_percent);
    }
    y += draw_soft(view, y);
    return y + (LINES >= 12); /* a blank line */
}

/* The line at the bottom: the filter that is typed, a note, or keys. */
static void draw_foot(const struct top_view *view, const char *keys) {
    char text[512];
    int y = LINES - 1;
    if (view->is_typing) {
        snprintf(text, sizeof text, "filter: %s", view->options->filter);
        int x = draw_text(y, 0, COLS - 1, A_BOLD, text);
        draw_right(y, x + 2, A_DIM, "Enter keep  Esc clear");
        move(y, x < COLS ? x : COLS - 1);
    } else if (top_note(&view->state.files, text, sizeof text)) {
        (void)draw_text(y, 0, COLS, draw_colour(view, DRAW_YELLOW) | A_BOLD, text);
    } else {
        (void)draw_text(y, 0, COLS, A_DIM, keys);
    }
}

/* ---- the list -------------------------------------------------------------------------------- */

const struct top_process *top_view_at(const struct top_view *view, size_t line) {
    for (size_t i = 0; i < view->state.process_count; i++) {
        const struct top_process *process = &view->state.processes[i];
        if (top_matches(process, view->options->filter) && line-- == 0) {
            return process;
        }
    }
    return NULL;
}

const struct top_process *top_view_find(const struct top_view *view, int64_t pid) {
    for (size_t i = 0; i < view->state.process_count; i++) {
        if (view->state.processes[i].pid == pid) {
            return &view->state.processes[i];
        }
    }
    return NULL;
}

/* Moves the window over the lines so that it shows line `at`, and no empty lines if it can. */
static void view_scroll(struct top_view *view, size_t at, size_t count, int room) {
    view->page = room > 0 ? (size_t)room : 1;
    view->line_count = count;
    if (at < view->first) {
        view->first = at;
    } else if (at >= view->first + view->page) {
        view->first = at - view->page + 1;
    }
    size_t last = count > view->page ? count - view->page : 0;
    view->first = view->first < last ? view->first : last;
}

static void draw_list(struct top_view *view) {
    int y = draw_head(view), room = LINES - y - 2;
    size_t count = 0, selected = 0;
    for (size_t i = 0; i < view->state.process_count; i++) {
        if (top_matches(&view->state.processes[i], view->options->filter)) {
            selected = view->state.processes[i].pid == view->selected ? count : selected;
            count++;
        }
    }
    view->selected_at = selected;
    view_scroll(view, selected, count, room);
    struct draw_layout layout =
        layout_fit(draw_process, sizeof draw_process / sizeof draw_process[0], DRAW_PROGRAM_LEAST);
    draw_titles(view, &layout, y++, "PROGRAM");
    for (size_t i = 0; i < view->page && view->first + i < count; i++) {
        const struct top_process *process = top_view_at(view, view->first + i);
        const struct draw_line line = {
            .process = process, .name = process->command, .figures = &process->figures};
        draw_row(view, &layout, y + (int)i, &line,
                 view->first + i == selected ? A_REVERSE
                 : process->is_published     ? 0
                                             : A_DIM);
    }
    if (!count) {
        (void)draw_text(y, 0, COLS, 0,
                        *view->options->filter ? "no process matches the filter"
                                               : "no process publishes statistics yet: start one "
                                                 "with ACRE_STATS=1 or 'acre run'");
    }
    draw_foot(view, "Enter open  s sort  r reverse  / filter  space pause  ? help  q quit");
}

/* ---- one process ----------------------------------------------------------------------------- */

/* Returns the line below. */
static int draw_process_head(const struct top_view *view, const struct top_process *process) {
    const struct top_figures *figures = &process->figures;
    char text[512], a[TOP_TEXT_BYTES], b[TOP_TEXT_BYTES], c[TOP_TEXT_BYTES];
    char spark[TOP_SPARK_BYTES];
    int x = draw_text(0, 0, COLS, A_BOLD, "acre top") + 2;
    snprintf(text, sizeof text, "%" PRId64 "  %s", process->pid, process->command);
    (void)draw_text(0, x, COLS - x, A_BOLD | draw_colour(view, DRAW_CYAN), text);
    snprintf(text, sizeof text, "live %s   held %s   peak %s", top_bytes(figures->live, a),
             top_bytes(figures->held, b), top_bytes(figures->peak, c));
    x = draw_text(1, 0, COLS, 0, text) + 3;
    if (figures->alloc_rate >= 0) {
        snprintf(text, sizeof text, "%s allocs/s   %s/s", top_rate(figures->alloc_rate, a),
                 top_byte_rate(figures->byte_rate, b));
        (void)draw_text(1, x, COLS - x, 0, text);
    }
    if (!process->is_published) {
        (void)draw_text(2, 0, COLS, A_DIM,
                        "publishes no statistics: NVML knows only what it holds");
        return 4;
    }
    snprintf(text, sizeof text, "%s   acre %s   started %s ago   written %s ago",
             process->cards[0] ? process->cards : "no device", process->library,
             top_age(process->started_ns, a), top_age(process->refreshed_ns, b));
    x = draw_text(2, 0, COLS, A_DIM, text) + 3;
    if (process->card_bytes != TOP_UNKNOWN) {
        snprintf(text, sizeof text, "on the card %s", top_bytes(process->card_bytes, a));
        (void)draw_text(2, x, COLS - x, A_DIM, text);
    }
    x = draw_text(3, 0, COLS, A_DIM, "held ");
    int width = COLS - x - 1 < TOP_HISTORY ? COLS - x - 1 : TOP_HISTORY;
    attron(draw_colour(view, DRAW_GREEN));
    mvaddstr(3, x,
             top_spark(&figures->history, (size_t)(width > 0 ? width : 0), view->is_utf8, spark));
    attroff(draw_colour(view, DRAW_GREEN));
    return 4 + (LINES >= 12);
}

/* The lines of a process: a title before each kind of holders. Returns their number; the caller
 * frees them. */
static size_t lines_make(const struct top_view *view, const struct top_process *process,
                         struct draw_line **lines_out) {
    struct draw_line *lines =
        cli_alloc((process->holder_count + 8) * sizeof *lines); /* titles and blank lines */
    enum acre__stats_kind kind = ACRE__STATS_NONE;
    size_t count = 0;
    for (size_t i = 0; i < process->holder_count; i++) {
        const struct top_holder *holder = &process->holders[i];
        if (!top_holder_matches(holder, view->options->filter)) {
            continue;
        }
        if (holder->kind != kind) {
            if (count && LINES >= 20) {
                lines[count++] = (struct draw_line){.name = ""};
            }
            lines[count++] = (struct draw_line){.name = top_kind_title(holder->kind)};
            kind = holder->kind;
        }
        lines[count++] =
            (struct draw_line){.holder = holder, .name = holder->name, .figures = &holder->figures};
    }
    *lines_out = lines;
    return count;
}

static void draw_one(struct top_view *view) {
    const struct top_process *process = top_view_find(view, view->options->pid);
    char text[128];
    if (!process) {
        snprintf(text, sizeof text, "process %" PRId64 " has ended, or publishes no statistics",
                 view->options->pid);
        (void)draw_text(0, 0, COLS, A_BOLD, text);
        draw_foot(view, "Esc back  q quit");
        return;
    }
    int y = draw_process_head(view, process);
    struct draw_line *lines;
    size_t count = lines_make(view, process, &lines);
    struct draw_layout layout =
        layout_fit(draw_holder, sizeof draw_holder / sizeof draw_holder[0], DRAW_HOLDER_LEAST);
    view_scroll(view, view->first, count, LINES - y - 1);
    for (size_t i = 0; i < view->page && view->first + i < count; i++) {
        const struct draw_line *line = &lines[view->first + i];
        if (line->figures) {
            draw_row(view, &layout, y + (int)i, line, 0);
        } else if (*line->name) {
            draw_titles(view, &layout, y + (int)i, line->name);
        }
    }
    if (!count && process->is_published) {
        (void)draw_text(y, 0, COLS, 0,
                        *view->options->filter ? "nothing matches the filter" : "no open device");
    }
    free(lines);
    draw_foot(view, count > view->page
                        ? "up, down scroll  Esc back  s sort  / filter  ? help  q quit"
                        : "Esc back  s sort  / filter  space pause  ? help  q quit");
}

/* ---- help ------------------------------------------------------------------------------------ */

static void draw_help(void) {
    static const char *const lines[] = {"acre top: keys",
                                        "up, down, j, k   move",
                                        "Enter, right     open a process",
                                        "Esc, left        back, clear the filter",
                                        "s, S, r          other order, reverse it",
                                        "/                filter",
                                        "space, +, -      pause, faster, slower",
                                        "q                quit",
                                        "",
                                        "LIVE     device memory in use",
                                        "HELD     device memory from the driver",
                                        "PEAK     the highest HELD so far",
                                        "ALLOC/S  allocations per second",
                                        "BYTES/S  bytes that they asked for",
                                        "TREND    HELD in the last readings",
                                        "-        not known",
                                        "",
                                        "any key: back"};
    for (int i = 0; i < (int)(sizeof lines / sizeof lines[0]) && i < LINES; i++) {
        (void)draw_text(i, 0, COLS, i == 0 ? A_BOLD : 0, lines[i]);
    }
}

void top_draw(struct top_view *view) {
    erase();
    (void)curs_set(view->is_typing ? 1 : 0);
    if (view->is_help) {
        draw_help();
    } else if (view->options->pid) {
        draw_one(view);
    } else {
        draw_list(view);
    }
    refresh();
}

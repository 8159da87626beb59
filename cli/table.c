/* Tables and styles of the tool.
 *
 * On a terminal a table fits its width: columns of text become narrower and their cells continue on
 * further lines. If the columns of numbers alone are too wide, each row becomes a list of its
 * cells. Pipes and files get one line for each row, whatever its length. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

enum {
    TABLE_GAP = 2,   /* spaces between columns */
    TABLE_LEAST = 12 /* a column of text does not get narrower */
};

/* ---- styles ---------------------------------------------------------------------------------- */

const char *cli_style_begin(FILE *stream, enum cli_style style) {
    static const char *const code[] = {"",         "\033[1m",  "\033[2m",
                                       "\033[32m", "\033[33m", "\033[31m"};
    return cli_colour(stream) ? code[style] : "";
}

const char *cli_style_end(FILE *stream) {
    return cli_colour(stream) ? "\033[0m" : "";
}

/* ---- the terminal ---------------------------------------------------------------------------- */

size_t cli_width(FILE *stream) {
    struct winsize size = {0};
    const char *columns = getenv("COLUMNS");
    if (!isatty(fileno(stream))) {
        return 0;
    }
    if (columns && *columns) {
        char *end;
        unsigned long width = strtoul(columns, &end, 10);
        if (!*end && width > 0 && width < 10000) {
            return width;
        }
    }
    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

size_t cli_height(FILE *stream) {
    struct winsize size = {0};
    return isatty(fileno(stream)) && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_row
                                                                                   : 0;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool text_is_inside(char byte) { /* a continuation byte of a UTF-8 character */
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Counts the columns of a text. */
static size_t text_width(const char *text) {
    size_t width = 0;
    for (; *text; text++) {
        width += !text_is_inside(*text);
    }
    return width;
}

/* Returns the bytes of the text that fit into `width` columns: up to a space if there is one. */
static size_t text_fit(const char *text, size_t width) {
    size_t bytes = 0, space = 0;
    for (size_t columns = 0; text[bytes]; bytes++) {
        if (!text_is_inside(text[bytes]) && columns++ == width) {
            break;
        }
        space = text[bytes] == ' ' ? bytes : space;
    }
    return text[bytes] && text[bytes] != ' ' && space ? space : bytes;
}

void cli_wrap(size_t left, const char *text) {
    size_t limit = cli_width(stdout);
    size_t width = limit > left + TABLE_LEAST ? limit - left : limit ? TABLE_LEAST : SIZE_MAX;
    for (;;) {
        size_t bytes = text_fit(text, width);
        printf("%.*s\n", (int)bytes, text);
        text += bytes;
        text += strspn(text, " ");
        if (!*text) {
            return;
        }
        printf("%*s", (int)left, "");
    }
}

void cli_progress(const char *format, ...) {
    char text[256];
    va_list arguments;
    if (!cli_is_terminal(stderr)) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++) { /* as in cli_table_cell */
        *c = iscntrl((unsigned char)*c) ? '?' : *c;
    }
    size_t limit = cli_width(stderr); /* a line that wraps could not be erased */
    int most = limit > 1 && limit < sizeof text ? (int)limit - 1 : (int)sizeof text;
    fprintf(stderr, "\r%.*s\033[K", most, text);
}

/* ---- cells ----------------------------------------------------------------------------------- */

void cli_table_begin(struct cli_table *table, const char *const *titles, size_t columns) {
    *table = (struct cli_table){.columns = columns};
    for (size_t i = 0; i < columns; i++) {
        table->right[i] = titles[i][0] == '>';
        table->title[i] = titles[i] + table->right[i];
    }
}

void cli_table_cell(struct cli_table *table, enum cli_style style, const char *format, ...) {
    if (table->cell_count == table->cell_room) {
        table->cell_room = table->cell_room ? 2 * table->cell_room : 64;
        struct cli_cell *cells = cli_alloc(table->cell_room * sizeof *cells);
        if (table->cell_count) {
            memcpy(cells, table->cells, table->cell_count * sizeof *cells);
        }
        free(table->cells);
        table->cells = cells;
    }
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    va_end(arguments);
    for (char *c = text; *c; c++) { /* a device name must not send escape codes to the terminal */
        if (iscntrl((unsigned char)*c)) {
            *c = '?';
        }
    }
    table->cells[table->cell_count++] = (struct cli_cell){text, style};
}

/* ---- layout ---------------------------------------------------------------------------------- */

static void table_measure(const struct cli_table *table, size_t width[CLI_TABLE_COLUMNS]) {
    for (size_t i = 0; i < table->columns; i++) {
        width[i] = text_width(table->title[i]);
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t own = text_width(table->cells[i].text), column = i % table->columns;
        width[column] = own > width[column] ? own : width[column];
    }
}

/* Returns the least width of a column. Numbers and titles are not broken. */
static size_t column_least(const struct cli_table *table, size_t column, size_t width) {
    size_t title = text_width(table->title[column]);
    size_t least = title > TABLE_LEAST ? title : TABLE_LEAST;
    return table->right[column] || width < least ? width : least;
}

/* Makes the widest columns of text narrower until the table fits. Returns false if it cannot. */
static bool table_fit(const struct cli_table *table, size_t limit,
                      size_t width[CLI_TABLE_COLUMNS]) {
    for (;;) {
        size_t whole = TABLE_GAP * (table->columns - 1), widest = table->columns;
        for (size_t i = 0; i < table->columns; i++) {
            whole += width[i];
            if (width[i] > column_least(table, i, width[i]) &&
                (widest == table->columns || width[i] > width[widest])) {
                widest = i;
            }
        }
        if (!limit || whole <= limit) {
            return true;
        }
        if (widest == table->columns) {
            return false;
        }
        width[widest]--;
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

/* Prints the next line of a cell and advances *text to the rest. */
static void print_part(const struct cli_table *table, size_t column, const char **text,
                       enum cli_style style, size_t width) {
    size_t bytes = text_fit(*text, width);
    char *part = cli_format("%.*s", (int)bytes, *text);
    int pad = (int)(width - text_width(part));
    bool is_last = column + 1 == table->columns;
    printf("%*s%s%s%s", table->right[column] ? pad : 0, "", cli_style_begin(stdout, style), part,
           style == CLI_PLAIN ? "" : cli_style_end(stdout));
    if (!is_last) {
        printf("%*s", (table->right[column] ? 0 : pad) + TABLE_GAP, "");
    }
    free(part);
    *text += bytes;
    *text += strspn(*text, " ");
}

static void print_row(const struct cli_table *table, const struct cli_cell *cells,
                      const size_t *width) {
    const char *rest[CLI_TABLE_COLUMNS];
    bool is_more = true;
    for (size_t i = 0; i < table->columns; i++) {
        rest[i] = cells[i].text;
    }
    while (is_more) {
        is_more = false;
        for (size_t i = 0; i < table->columns; i++) {
            print_part(table, i, &rest[i], cells[i].style, width[i]);
            is_more = is_more || *rest[i];
        }
        putchar('\n');
    }
}

static void print_columns(const struct cli_table *table, const size_t *width) {
    for (size_t i = 0; i < table->columns; i++) {
        const char *title = table->title[i];
        print_part(table, i, &title, CLI_BOLD, width[i]);
    }
    putchar('\n');
    for (size_t i = 0; i < table->cell_count; i += table->columns) {
        print_row(table, &table->cells[i], width);
    }
}

/* Prints each row as lines of title and cell, for a terminal that is too narrow for columns. */
static void print_lists(const struct cli_table *table, size_t limit) {
    struct cli_table list = {.columns = 2, .title = {"", ""}};
    size_t width[CLI_TABLE_COLUMNS] = {0};
    for (size_t i = 0; i < table->columns; i++) {
        size_t own = text_width(table->title[i]);
        width[0] = own > width[0] ? own : width[0];
    }
    width[1] = limit > width[0] + TABLE_GAP + 1 ? limit - width[0] - TABLE_GAP : 1;
    for (size_t i = 0; i < table->cell_count; i++) {
        size_t column = i % table->columns;
        char *title = cli_format("%s", table->title[column]);
        const struct cli_cell cells[] = {{title, CLI_BOLD}, table->cells[i]};
        if (column == 0 && i > 0) {
            putchar('\n');
        }
        print_row(&list, cells, width);
        free(title);
    }
}

void cli_table_end(struct cli_table *table) {
    size_t width[CLI_TABLE_COLUMNS], limit = cli_width(stdout);
    if (table->columns == 0) {
        return; /* cli_table_begin was not called */
    }
    table_measure(table, width);
    if (table_fit(table, limit, width)) {
        print_columns(table, width);
    } else {
        print_lists(table, limit);
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        free(table->cells[i].text);
    }
    free(table->cells);
    *table = (struct cli_table){0};
}

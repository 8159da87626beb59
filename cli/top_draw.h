/* Draws the live view of `acre top` with ncurses: the list of processes, the holders of one, and
 * the help. Only top_screen.c calls this. */
#ifndef ACRE_CLI_TOP_DRAW_H
#define ACRE_CLI_TOP_DRAW_H

#include "top_screen.h"

struct top_view {
    struct top_options *options;
    struct top_state state;
    bool is_paused, is_help, is_typing; /* typing: the filter */
    bool is_utf8, has_colour;
    int64_t selected;   /* the process under the cursor; 0: the first one */
    size_t first;       /* line of the list that is at the top */
    size_t page;        /* lines of the list that the last drawing had room for */
    size_t line_count;  /* of the list in the last drawing */
    size_t selected_at; /* line of the cursor in the last drawing */
};

/* Whether the view has a colour, by the terminal and NO_COLOR. */
void top_draw_begin(struct top_view *view);
void top_draw(struct top_view *view);

/* The process of a line of the list, as the filter leaves them; NULL beyond the last. */
const struct top_process *top_view_at(const struct top_view *view, size_t line);
/* The process with that number, or NULL. */
const struct top_process *top_view_find(const struct top_view *view, int64_t pid);

#endif

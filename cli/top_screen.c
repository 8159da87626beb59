/* The live view of `acre top`: see top_screen.h. Reads the keyboard and the statistics in turn; no
 * threads. */
#include "top_screen.h"

#include <errno.h>
#include <locale.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "top_draw.h"

enum { KEY_ESCAPE = 27, KEY_DELETE = 127, KEY_BACK = 8, KEY_CARRIAGE = 13 };

static volatile sig_atomic_t screen_signal;

static void screen_on_signal(int number) {
    screen_signal = number;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Moves the cursor of the list, or scrolls the holders of a process, by so many lines. */
static void key_move(struct top_view *view, long by) {
    bool is_one = view->options->pid != 0;
    long at = (long)(is_one ? view->first : view->selected_at) + by;
    long last = (long)view->line_count - 1;
    at = at > last ? last : at;
    at = at < 0 ? 0 : at;
    if (is_one) {
        view->first = (size_t)at;
        return;
    }
    const struct top_process *process = top_view_at(view, (size_t)at);
    view->selected = process ? process->pid : 0;
}

static void key_open(struct top_view *view) {
    const struct top_process *process = top_view_at(view, view->selected_at);
    if (!view->options->pid && process) {
        view->selected = view->options->pid = process->pid;
        view->first = 0;
        view->options->filter[0] = '\0';
    }
}

static void key_back(struct top_view *view) {
    if (view->options->filter[0]) {
        view->options->filter[0] = '\0';
    } else {
        view->options->pid = 0;
    }
    view->first = 0;
}

static void key_type(struct top_view *view, int key) {
    char *filter = view->options->filter;
    size_t length = strlen(filter);
    if (key == KEY_ESCAPE) {
        filter[0] = '\0';
        view->is_typing = false;
    } else if (key == '\n' || key == KEY_CARRIAGE || key == KEY_ENTER) {
        view->is_typing = false;
    } else if ((key == KEY_BACKSPACE || key == KEY_DELETE || key == KEY_BACK) && length) {
        filter[length - 1] = '\0';
    } else if (key >= ' ' && key <= '~' && length + 1 < sizeof view->options->filter) {
        filter[length] = (char)key;
        filter[length + 1] = '\0';
    }
    view->first = 0;
}

static void key_change(struct top_view *view, int key) {
    struct top_options *options = view->options;
    switch (key) {
    case 's':
        options->sort = (enum top_sort)((options->sort + 1) % TOP_SORTS);
        break;
    case 'S':
        options->sort = (enum top_sort)((options->sort + TOP_SORTS - 1) % TOP_SORTS);
        break;
    case 'r':
        options->is_reversed = !options->is_reversed;
        break;
    case '+':
        options->interval_s = options->interval_s / 2 < 0.1 ? 0.1 : options->interval_s / 2;
        break;
    case '-':
        options->interval_s = options->interval_s * 2 > 3600 ? 3600 : options->interval_s * 2;
        break;
    case ' ':
        view->is_paused = !view->is_paused;
        break;
    case '/':
        view->is_typing = true;
        break;
    case '?':
        view->is_help = true;
        break;
    default:
        break;
    }
}

/* Returns false if the user quits. */
static bool key_handle(struct top_view *view, int key) {
    if (key == KEY_RESIZE) {
        return true;
    }
    if (view->is_help) {
        view->is_help = false;
        return key != 'q';
    }
    if (view->is_typing) {
        key_type(view, key);
        return true;
    }
    switch (key) {
    case 'q':
        return false;
    case KEY_UP:
    case 'k':
        key_move(view, -1);
        return true;
    case KEY_DOWN:
    case 'j':
        key_move(view, 1);
        return true;
    case KEY_PPAGE:
        key_move(view, -(long)view->page);
        return true;
    case KEY_NPAGE:
        key_move(view, (long)view->page);
        return true;
    case KEY_HOME:
        key_move(view, -(long)view->line_count);
        return true;
    case KEY_END:
        key_move(view, (long)view->line_count);
        return true;
    case '\n':
    case KEY_CARRIAGE:
    case KEY_ENTER:
    case KEY_RIGHT:
        key_open(view);
        return true;
    case KEY_ESCAPE:
    case KEY_LEFT:
    case KEY_BACKSPACE:
    case KEY_DELETE:
        key_back(view);
        return true;
    default:
        key_change(view, key);
        return true;
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Waits for a key, at most until `due_ns`. Returns ERR without one, and sets *is_gone if the
 * terminal has gone. */
static int screen_wait(uint64_t due_ns, bool *is_gone) {
    uint64_t now_ns = cli_now_ns();
    struct pollfd terminal = {.fd = STDIN_FILENO, .events = POLLIN};
    int key = getch();
    if (key != ERR || screen_signal) {
        return key;
    }
    int ms = due_ns > now_ns ? (int)((due_ns - now_ns) / 1000000u) + 1 : 0;
    int got = poll(&terminal, 1, ms);
    if (got > 0 && terminal.revents & (POLLHUP | POLLERR | POLLNVAL)) {
        *is_gone = true;
    }
    return got > 0 || (got < 0 && errno == EINTR) ? getch() : ERR;
}

static void screen_loop(struct top_view *view) {
    uint64_t due_ns = 0;
    bool is_running = true, is_gone = false;
    while (is_running && !is_gone && !screen_signal) {
        uint64_t now_ns = cli_now_ns();
        if (now_ns >= due_ns) {
            if (!view->is_paused || !due_ns) {
                top_look(&view->state);
            }
            due_ns = now_ns + (uint64_t)(view->options->interval_s * 1e9);
        }
        top_sort(&view->state, view->options->sort, view->options->is_reversed);
        top_draw(view);
        int key = screen_wait(due_ns, &is_gone);
        if (key != ERR) {
            is_running = key_handle(view, key);
        }
    }
}

int top_screen(struct top_options *options) {
    struct top_view view = {.options = options};
    struct sigaction action = {.sa_handler = screen_on_signal};
    const char *term = getenv("TERM");
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    (void)setlocale(LC_CTYPE, "");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (!screen) {
        cli_say("there is no live view on a terminal of type '%.40s'; use 'acre top --once'",
                term ? term : "");
        return CLI_CANNOT;
    }
    set_escdelay(25);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    top_draw_begin(&view);
    screen_loop(&view);
    endwin();
    delscreen(screen);
    top_end(&view.state);
    if (screen_signal && screen_signal != SIGINT) { /* the caller sees which signal it was */
        signal(screen_signal, SIG_DFL);
        raise(screen_signal);
    }
    return CLI_OK;
}

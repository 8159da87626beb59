/* The order of processes and their holders in `acre top`, and filters: see top_model.h. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "top_model.h"

const char *const top_sort_names[TOP_SORTS] = {"held", "live", "peak", "rate", "pid", "name"};

struct order {
    enum top_sort by;
    bool is_reversed;
};

/* What is not known comes last. */
static int order_bytes(uint64_t a, uint64_t b) {
    a = a == TOP_UNKNOWN ? 0 : a + 1;
    b = b == TOP_UNKNOWN ? 0 : b + 1;
    return (a < b) - (a > b);
}

static int order_figures(const struct top_figures *a, const struct top_figures *b,
                         enum top_sort by) {
    switch (by) {
    case TOP_BY_LIVE:
        return order_bytes(a->live, b->live);
    case TOP_BY_PEAK:
        return order_bytes(a->peak, b->peak);
    case TOP_BY_RATE:
        return (a->alloc_rate < b->alloc_rate) - (a->alloc_rate > b->alloc_rate);
    default:
        return order_bytes(a->held == TOP_UNKNOWN ? a->live : a->held,
                           b->held == TOP_UNKNOWN ? b->live : b->held);
    }
}

static int order_processes(const void *a, const void *b, void *user) {
    const struct top_process *x = a, *y = b;
    const struct order *order = user;
    int result = order->by == TOP_BY_PID    ? 0
                 : order->by == TOP_BY_NAME ? strcasecmp(x->command, y->command)
                                            : order_figures(&x->figures, &y->figures, order->by);
    if (order->is_reversed) {
        result = -result;
    }
    int by_pid = (x->pid > y->pid) - (x->pid < y->pid);
    return result ? result : order->by == TOP_BY_PID && order->is_reversed ? -by_pid : by_pid;
}

/* Kinds stay together: devices, pools, tags, memory of the driver. */
static int order_holders(const void *a, const void *b, void *user) {
    const struct top_holder *x = a, *y = b;
    const struct order *order = user;
    if (x->kind != y->kind) {
        return x->kind < y->kind ? -1 : 1;
    }
    int result = order->by == TOP_BY_PID    ? 0
                 : order->by == TOP_BY_NAME ? strcasecmp(x->name, y->name)
                                            : order_figures(&x->figures, &y->figures, order->by);
    if (order->is_reversed) {
        result = -result;
    }
    result = result ? result : (x->id > y->id) - (x->id < y->id);
    return result ? result : (x->file > y->file) - (x->file < y->file);
}

void top_sort(struct top_state *state, enum top_sort by, bool is_reversed) {
    struct order order = {by, is_reversed};
    if (state->process_count) {
        qsort_r(state->processes, state->process_count, sizeof state->processes[0], order_processes,
                &order);
    }
    for (size_t i = 0; i < state->process_count; i++) {
        struct top_process *process = &state->processes[i];
        if (process->holder_count) {
            qsort_r(process->holders, process->holder_count, sizeof process->holders[0],
                    order_holders, &order);
        }
    }
}

bool top_holder_matches(const struct top_holder *holder, const char *filter) {
    return !*filter || strcasestr(holder->name, filter);
}

bool top_matches(const struct top_process *process, const char *filter) {
    char pid[32];
    snprintf(pid, sizeof pid, "%lld", (long long)process->pid);
    if (!*filter || strcasestr(process->command, filter) || strcasestr(process->program, filter) ||
        strcasestr(process->cards, filter) || strstr(pid, filter)) {
        return true;
    }
    for (size_t i = 0; i < process->holder_count; i++) {
        if (top_holder_matches(&process->holders[i], filter)) {
            return true;
        }
    }
    return false;
}

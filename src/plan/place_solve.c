/* The strategy: cheap attempts first, then expensive ones.
 *
 * Descents come first: a descent of 30,000 items takes 20 ms. On the workloads of real programs its
 * plan is at most some thousandths too high, often optimal. Then come rounds of searches, for parts
 * that are small enough; they find gapless plans that nothing else finds. Around fixed items, first
 * fit and best fit are often lower than a descent, so they are tried as well.
 *
 * The time of a search depends on luck: the same part may take some hundred nodes in one order and
 * millions in another. So a search ends early, after a few times as many nodes as there are items,
 * and the next one uses another order. There are eight initial orders. Each time an order fails,
 * the items that were unplaced where it failed move forward a little. Limits grow with the rounds.
 * One search in each round leaves nothing out, and may prove that no lower plan exists.
 *
 * When the plan should be as low as possible, and not just fit, every other search aims at the
 * goal, because tight problems are often easier. The others aim between the goal and the best plan.
 * In addition, probes bisect that interval. All searches of a probe aim at one height, with orders
 * that have not learnt from other heights. The next probe is lower if this one found a plan,
 * otherwise higher. When the interval is small, the probes begin again with more rounds each. */
#include "plan/place_solve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_descend.h"
#include "plan/place_fit.h"
#include "plan/place_order.h"
#include "plan/place_search.h"

enum {
    SOLVE_SEARCH_ALL = 1024,     /* items; above this, most attempts are descents */
    SOLVE_SEARCH_MOST = 4096,    /* items; sets of items take quadratic memory, 12 MB */
    SOLVE_FIT_MOST = 32768,      /* items, for fits around fixed ones */
    SOLVE_PROOF_STEPS = 1 << 16, /* divided by the number of items, plus some per item */
    SOLVE_PROBE_ROUNDS = 4,      /* rounds of searches in the first probes */
    SOLVE_PROBE_STEPS = 16,      /* bisects until 1/16 of the interval is left */
    SOLVE_FINE_ATTEMPTS = 64,    /* to gain less than a unit of alignment */
    SOLVE_FINE_MOST = 512        /* items, for a search that gains less than a unit */
};

/* The greedy plans that a part begins with; the fits only if there are fixed items. Which order is
 * best differs between families of problems; the first ones here are best most often. */
enum solve_kind { SOLVE_DESCENT, SOLVE_FIRST_FIT, SOLVE_BEST_FIT };

static const struct solve_start {
    const char *letters;
    enum solve_kind kind;
} solve_starts[] = {
    {"TWA", SOLVE_DESCENT}, {"TL", SOLVE_DESCENT},  {"TWA", SOLVE_BEST_FIT},
    {"Z", SOLVE_BEST_FIT},  {"L", SOLVE_BEST_FIT},  {"TWA", SOLVE_FIRST_FIT},
    {"Z", SOLVE_FIRST_FIT}, {"TU", SOLVE_DESCENT},  {"TAW", SOLVE_DESCENT},
    {"WAT", SOLVE_DESCENT}, {"AWT", SOLVE_DESCENT}, {"LW", SOLVE_DESCENT},
};

/* Initial orders of rounds; each hard instance known is easy in one of them. */
static const char *const solve_orders[] = {"WAT", "TAW", "TWA", "UT", "LT", "AWT", "TZ", "LZ"};

enum {
    SOLVE_STARTS = sizeof solve_starts / sizeof solve_starts[0],
    SOLVE_ORDERS = sizeof solve_orders / sizeof solve_orders[0],
    SOLVE_ROUND = SOLVE_ORDERS + 1,                /* attempts in a round, with the proof */
    SOLVE_ROUND_LEAST = SOLVE_ROUND + SOLVE_ORDERS /* plus those of a probe */
};

/* A series of searches that all aim at one height. */
struct solve_probe {
    uint32_t *orders;
    uint64_t target;
    uint64_t low; /* the last target without a plan */
    uint32_t round, most_rounds;
};

struct place_solver {
    const struct place_part *part;
    struct place_meter *meter;
    uint32_t count; /* items that are not fixed; the length of orders */
    uint64_t goal;
    uint64_t height;
    uint64_t *offsets; /* the best plan */
    uint64_t *scratch; /* the plan of an attempt */
    uint32_t *order;
    uint32_t *learnt; /* one order for each search of a round */
    struct solve_probe probe;
    struct place_descent *descent;
    struct place_search *search; /* search and descent are created on first use */
    uint32_t starts;             /* greedy attempts so far */
    uint32_t attempts;           /* other attempts so far */
    uint32_t fine_attempts;      /* attempts to gain less than a unit of alignment */
    int is_least, is_done, is_proven;
};

struct place_solver *acre__place_solver_create(const struct place_part *part, uint64_t goal,
                                               int is_least, struct place_meter *meter) {
    struct place_solver *solver = calloc(1, sizeof *solver);
    if (!solver)
        return NULL;
    solver->part = part;
    solver->count = part->count - part->fixed_count;
    solver->meter = meter;
    solver->goal = goal;
    solver->is_least = is_least;
    solver->height = PLACE_NOWHERE;
    solver->offsets = malloc(part->count * sizeof *solver->offsets);
    solver->scratch = malloc(part->count * sizeof *solver->scratch);
    solver->order = malloc(part->count * sizeof *solver->order);
    if (!solver->offsets || !solver->scratch || !solver->order) {
        acre__place_solver_destroy(solver);
        return NULL;
    }
    for (uint32_t i = 0; i < part->fixed_count; i++)
        solver->scratch[i] = part->items[i].offset;
    return solver;
}

void acre__place_solver_destroy(struct place_solver *solver) {
    if (solver) {
        acre__place_search_destroy(solver->search);
        acre__place_descent_destroy(solver->descent);
        free(solver->offsets);
        free(solver->scratch);
        free(solver->order);
        free(solver->learnt);
        free(solver->probe.orders);
        free(solver);
    }
}

struct place_standing acre__place_solver_standing(const struct place_solver *solver) {
    return (struct place_standing){.height = solver->height,
                                   .offsets = solver->offsets,
                                   .is_begun = solver->starts == SOLVE_STARTS,
                                   .is_done = solver->is_done,
                                   .is_proven = solver->is_proven};
}

/* ---- greedy attempts ---- */

/* Keeps the plan in `scratch` if it is complete and lower. */
static void solve_keep(struct place_solver *solver) {
    const struct place_part *part = solver->part;
    uint64_t height = 0;
    solver->meter->work += 4 * (uint64_t)part->count;
    for (uint32_t i = 0; i < part->count; i++) {
        uint64_t end = solver->scratch[i] + part->items[i].size;
        height = end > height ? end : height;
    }
    if (height < solver->height && height < PLACE_NOWHERE) {
        solver->height = height;
        memcpy(solver->offsets, solver->scratch, part->count * sizeof *solver->offsets);
    }
    if (solver->height <= solver->goal)
        solver->is_done = 1;
}

/* Returns the height to aim at: the goal, or the loose bound if it lies between the goal and the
 * best plan. */
static uint64_t solve_aim(const struct place_solver *solver) {
    uint64_t loose = solver->part->loose_bound;
    return solver->goal < loose && loose < solver->height ? loose : solver->goal;
}

/* Makes a plan by the solver's order in `scratch`, and keeps it if it is lower. Returns 0 or
 * -ENOMEM. */
static int solve_descend(struct place_solver *solver) {
    if (!solver->descent)
        solver->descent = acre__place_descent_create(solver->part, solver->meter);
    if (!solver->descent)
        return -ENOMEM;
    acre__place_descent_run(solver->descent, solver->order, solver->scratch);
    solve_keep(solver);
    return 0;
}

/* As solve_descend, by first fit or best fit, for parts with fixed items. */
static int solve_fit(struct place_solver *solver, enum place_fit fit) {
    int rc = acre__place_fit(solver->part, solver->order, fit, solver->meter, solver->scratch);
    if (rc == 0)
        solve_keep(solver);
    return rc;
}

static int solve_may_fit(const struct place_solver *solver) {
    return solver->part->fixed_count && solver->part->count <= SOLVE_FIT_MOST;
}

static int solve_start(struct place_solver *solver) {
    const struct solve_start *start = &solve_starts[solver->starts++];
    if (start->kind != SOLVE_DESCENT && !solve_may_fit(solver))
        return 0;
    int rc = acre__place_order(solver->part, start->letters, solver->meter, solver->order);
    if (rc)
        return rc;
    if (start->kind == SOLVE_DESCENT)
        return solve_descend(solver);
    return solve_fit(solver, start->kind == SOLVE_FIRST_FIT ? PLACE_FIRST_FIT : PLACE_BEST_FIT);
}

/* ---- rounds ---- */

/* Returns the target height of one search of a round. */
static uint64_t solve_target(const struct place_solver *solver, uint32_t kind) {
    static const unsigned eighths[SOLVE_ORDERS] = {0, 4, 0, 7, 0, 2, 0, 6};
    uint64_t aim = solve_aim(solver);
    if (!solver->is_least && kind != SOLVE_ORDERS - 1)
        return aim; /* except the last order, which improves a plan that does not fit */
    if (solver->height <= aim || kind == SOLVE_ORDERS)
        return solver->height - 1;
    return aim + (solver->height - 1 - aim) / 8 * eighths[kind];
}

/* Computes the initial orders; allocates the array if necessary. */
static int solve_begin_orders(struct place_solver *solver, uint32_t **orders) {
    const struct place_part *part = solver->part;
    if (!*orders)
        *orders = malloc((size_t)SOLVE_ORDERS * solver->count * sizeof **orders);
    if (!*orders)
        return -ENOMEM;
    for (uint32_t k = 0; k < SOLVE_ORDERS; k++) {
        int rc = acre__place_order(part, solve_orders[k], solver->meter,
                                   *orders + (size_t)k * solver->count);
        if (rc)
            return rc;
    }
    return 0;
}

/* Creates what attempts other than greedy ones need. */
static int solve_prepare(struct place_solver *solver) {
    int rc = solver->learnt ? 0 : solve_begin_orders(solver, &solver->learnt);
    if (rc == 0 && !solver->search && solver->part->count <= SOLVE_SEARCH_MOST) {
        solver->search = acre__place_search_create(solver->part, solver->meter);
        rc = solver->search ? 0 : -ENOMEM;
    }
    return rc;
}

/* Searches with one order, which learns from a failure. */
static int solve_search(struct place_solver *solver, uint32_t *order, uint64_t target,
                        uint32_t round) {
    static const uint32_t hundredths[] = {3, 2, 3, 1};
    uint32_t count = solver->count;
    struct place_attempt attempt = {
        .order = order,
        .capacity = target,
        .has_jumps = 1,
        .steps = 2 * count + (uint64_t)count * round / 8,
    };
    int rc = acre__place_search_run(solver->search, &attempt, solver->scratch);
    if (rc == PLACE_SOLVED)
        solve_keep(solver);
    if (rc < 0 || rc == PLACE_SOLVED)
        return rc < 0 ? rc : 0;
    return acre__place_order_promote(order, count, count * hundredths[round % 4] / 100 + 1,
                                     acre__place_search_heat(solver->search), solver->meter);
}

/* Chooses the next height to probe, and resets the orders. */
static int solve_next_probe(struct place_solver *solver) {
    struct solve_probe *probe = &solver->probe;
    uint64_t aim = solve_aim(solver);
    if (probe->low < aim || probe->most_rounds == 0) {
        probe->low = aim;
        probe->most_rounds = SOLVE_PROBE_ROUNDS;
    } else if (probe->target < solver->height) {
        probe->low = probe->target;
    }
    if (probe->low >= solver->height ||
        (solver->height - probe->low) < (solver->height - aim) / SOLVE_PROBE_STEPS + 2) {
        probe->low = aim;
        probe->most_rounds *= 2;
    }
    probe->target = probe->low + (solver->height - probe->low) / 2;
    probe->round = 0;
    return solve_begin_orders(solver, &probe->orders);
}

/* Makes one search of a probe. */
static int solve_probe(struct place_solver *solver, uint32_t kind) {
    struct solve_probe *probe = &solver->probe;
    if (kind == 0)
        probe->round++;
    if (!probe->orders || probe->round > probe->most_rounds || solver->height <= probe->target) {
        int rc = solve_next_probe(solver);
        if (rc)
            return rc;
    }
    return solve_search(solver, probe->orders + (size_t)kind * solver->count, probe->target,
                        probe->round);
}

/* Makes a search without jumps, which leaves nothing out. */
static int solve_prove(struct place_solver *solver, uint32_t round) {
    int rc = acre__place_order(solver->part, solve_orders[0], solver->meter, solver->order);
    if (rc)
        return rc;
    struct place_attempt attempt = {
        .order = solver->order,
        .capacity = solve_target(solver, SOLVE_ORDERS),
        /* Tiny parts need more steps per item, and get their proof in the first round. */
        .steps = SOLVE_PROOF_STEPS / solver->count + (uint64_t)solver->count * (2 + round),
    };
    rc = acre__place_search_run(solver->search, &attempt, solver->scratch);
    if (rc == PLACE_SOLVED)
        solve_keep(solver);
    if (rc == PLACE_IMPOSSIBLE)
        solver->is_done = solver->is_proven = 1;
    return rc < 0 ? rc : 0;
}

/* For parts that are too large for searches: makes a descent with one order, which learns which
 * items end too high. */
static int solve_rework(struct place_solver *solver, uint32_t round, uint32_t kind) {
    const struct place_part *part = solver->part;
    uint32_t count = solver->count;
    uint32_t *order = solver->learnt + (size_t)kind * count;
    memcpy(solver->order, order, count * sizeof *order);
    int rc = solve_descend(solver);
    if (rc)
        return rc;
    uint64_t aim = solve_target(solver, kind), over = 1;
    for (uint32_t i = part->fixed_count; i < part->count; i++) {
        uint64_t end = solver->scratch[i] + part->items[i].size;
        over = end > aim && end - aim > over ? end - aim : over;
    }
    /* Heat: in even rounds by how much an item is too high, in odd rounds whether it is. */
    for (uint32_t i = part->fixed_count; i < part->count; i++) {
        uint64_t end = solver->scratch[i] + part->items[i].size;
        uint64_t heat = end <= aim ? 0 : round % 2 ? 1 : 1 + (end - aim) / (over / 1024 + 1);
        solver->order[i] = (uint32_t)heat;
    }
    uint32_t reach = round % 4 < 2 ? count / 3 : count / 50;
    return acre__place_order_promote(order, count, reach + 1, solver->order, solver->meter);
}

/* Returns the item that should lie on top of the fullest section: the one that wastes the most
 * space there, because on top it wastes none. */
static uint32_t solve_topmost(const struct place_part *part) {
    uint32_t fullest = 0, topmost = part->fixed_count;
    uint64_t most = 0;
    for (uint32_t s = 1; s < part->sections; s++)
        fullest = part->total[s] > part->total[fullest] ? s : fullest;
    for (uint32_t i = part->fixed_count; i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        if (item->first <= fullest && fullest < item->end && item->room - item->size > most) {
            most = item->room - item->size;
            topmost = i;
        }
    }
    return topmost;
}

/* The plan is less than a unit of alignment too high: makes a descent that places the right item
 * last. */
static int solve_fine(struct place_solver *solver, uint32_t kind) {
    uint32_t topmost = solve_topmost(solver->part), kept = 0;
    int rc = acre__place_order(solver->part, solve_orders[kind], solver->meter, solver->order);
    if (rc)
        return rc;
    for (uint32_t k = 0; k < solver->count; k++) {
        if (solver->order[k] != topmost)
            solver->order[kept++] = solver->order[k];
    }
    solver->order[kept] = topmost;
    return solve_descend(solver);
}

static int solve_attempt(struct place_solver *solver) {
    const struct place_part *part = solver->part;
    int has_probes = solver->is_least && part->count <= SOLVE_SEARCH_ALL;
    uint32_t attempts = has_probes ? SOLVE_ROUND_LEAST : SOLVE_ROUND;
    uint32_t round = solver->attempts / attempts, kind = solver->attempts % attempts;
    if (solver->height <= part->loose_bound) {
        uint32_t fine = solver->fine_attempts++;
        if (fine < SOLVE_ORDERS)
            return solve_fine(solver, fine);
        solver->is_done = fine >= SOLVE_FINE_ATTEMPTS || part->count > SOLVE_FINE_MOST;
        if (solver->is_done)
            return 0;
    }
    solver->attempts++;
    int rc = solve_prepare(solver);
    if (rc)
        return rc;
    if (kind >= SOLVE_ROUND)
        return solve_probe(solver, kind - SOLVE_ROUND);
    if (kind == SOLVE_ORDERS && part->count <= SOLVE_SEARCH_MOST)
        return solve_prove(solver, round);
    /* The larger a part, the more expensive a search; half a round of descents costs less than one
     * search. */
    int is_cheap = part->count <= SOLVE_SEARCH_ALL || kind % 4 == 3 || part->fixed_count;
    if (!is_cheap || part->count > SOLVE_SEARCH_MOST)
        return solve_rework(solver, round, kind % SOLVE_ORDERS);
    return solve_search(solver, solver->learnt + (size_t)kind * solver->count,
                        solve_target(solver, kind), round);
}

int acre__place_solver_step(struct place_solver *solver) {
    if (solver->is_done)
        return 0;
    if (solver->starts < SOLVE_STARTS)
        return solve_start(solver);
    return solve_attempt(solver);
}

/* Canonical depth-first search, bottom up, with back-jumping.
 *
 * If a placement exists, one exists in which every item lies on the bottom or on another item, and
 * it can be built in the order of (offset, rank). So a node of the search places one of the items
 * that stand lowest, where it stands; the nodes below it place only items that come later in that
 * order. An item that was passed over must rest on an item that is placed later. It is raised
 * accordingly, which often shows that a section cannot hold its unplaced items.
 *
 * - Dominance: no item is placed at or above the end that an unplaced item would have, because
 *   that item could slide below it.
 * - An item is not passed over if no unplaced item overlaps it in time: there is nothing that it
 *   could rest on.
 * - When the unplaced items fall apart in time, the pieces are solved one by one. A piece without a
 *   solution fails the whole node.
 *
 * Choices far apart in time alternate along a path. A failure is therefore mostly not the fault of
 * the last choice, and its siblings lead to the same failure again. So each failure has a reason:
 * the placed items that it depends on. These are the items of the section that overflows and those
 * that hold up its unplaced items. A node whose item is not in the reason fails at once with the
 * same reason. A node that has tried everything fails with the reasons that it has collected. The
 * reasons ignore how another choice would change the canonical order. Jumps are therefore a
 * heuristic, and only a search without them is a proof.
 *
 * An explicit stack of frames, one for each node on the path, replaces recursion. */
#include "plan/place_search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_state.h"

/* A node: the items of a piece, one of which has to be chosen. */
struct search_frame {
    uint32_t set;                    /* the piece: its index on the stack of sets */
    uint32_t tries_begin, tries_end; /* candidates, including those passed over before */
    uint32_t next;                   /* the next candidate */
    uint32_t chosen;                 /* rank of the last candidate tried */
    uint32_t lowest;                 /* rank of the item at or above whose end nothing is placed */
    uint32_t pieces_begin, pieces_end; /* pieces after the last candidate */
    uint32_t piece;                    /* number of pieces begun */
    uint32_t is_last;                  /* no sibling can succeed */
    uint32_t trail;                    /* length of the trail before this node */
};

struct place_search {
    struct place_state state;
    int has_jumps;
    struct search_frame *frames;
    uint32_t frame_count;
    uint64_t *conflicts; /* by frame: the items that its failures depend on */
    uint64_t *reason;    /* of the last failure */
    uint32_t *heat;      /* by item */
    uint64_t *sets;
    uint32_t set_count;
    uint32_t *tries;
    uint32_t try_count, try_room;
};

struct place_search *acre__place_search_create(const struct place_part *part,
                                               struct place_meter *meter) {
    struct place_search *search = calloc(1, sizeof *search);
    if (!search)
        return NULL;
    int rc = acre__place_state_create(&search->state, part, meter);
    size_t most = search->state.count + (size_t)1, words = search->state.words;
    search->frames = malloc(most * sizeof *search->frames);
    search->conflicts = malloc((most * words + 1) * sizeof *search->conflicts);
    search->reason = malloc((words + 1) * sizeof *search->reason);
    search->heat = malloc(part->count * sizeof *search->heat);
    /* Pieces are not empty, and are disjoint or nested. */
    search->sets = malloc((2 * most * words + 1) * sizeof *search->sets);
    if (rc || !search->frames || !search->conflicts || !search->reason || !search->heat ||
        !search->sets) {
        acre__place_search_destroy(search);
        return NULL;
    }
    return search;
}

void acre__place_search_destroy(struct place_search *search) {
    if (search) {
        acre__place_state_destroy(&search->state);
        free(search->frames);
        free(search->conflicts);
        free(search->reason);
        free(search->heat);
        free(search->sets);
        free(search->tries);
        free(search);
    }
}

static uint64_t *search_set(struct place_search *search, uint32_t number) {
    return search->sets + (size_t)number * search->state.words;
}

static int search_has_tries(struct place_search *search, uint32_t more) {
    uint32_t need = search->try_count + more;
    if (need > search->try_room) {
        uint32_t *tries = realloc(search->tries, 2 * (size_t)need * sizeof *tries);
        if (!tries)
            return 0;
        search->tries = tries;
        search->try_room = 2 * need;
    }
    return 1;
}

/* ---- reasons ---- */

static uint64_t *search_conflicts(struct place_search *search, uint32_t frame) {
    return search->conflicts + (size_t)frame * search->state.words;
}

static void search_blame(uint64_t *set, uint32_t rank) {
    if (rank != PLACE_NONE)
        place_set_add(set, rank);
}

/* Adds the placed items that keep an unplaced item from being lower. */
static void search_blame_for(const struct place_entry *entry, uint64_t *set) {
    search_blame(set, entry->low_by);
    if (entry->low > entry->at)
        search_blame(set, entry->at_by);
}

/* Computes the reason of the failure that the state has just reported. */
static void search_explain(struct place_search *search) {
    const struct place_state *state = &search->state;
    uint64_t *reason = search->reason;
    if (!search->has_jumps)
        return;
    memset(reason, 0, state->words * sizeof *reason);
    if (state->bad_item != PLACE_NONE) {
        search_blame_for(&state->entries[state->bad_item], reason);
        return;
    }
    const uint64_t *lives = state->lives + (size_t)state->bad_section * state->words;
    for (uint32_t w = 0; w < state->words; w++)
        reason[w] = lives[w] & ~state->open[w];
    for (uint32_t r = place_next(state, lives, 0); r != PLACE_NONE;
         r = place_next(state, lives, r + 1)) {
        search->heat[state->entries[r].item]++;
        search_blame_for(&state->entries[r], reason);
    }
}

/* Computes the reason why an item cannot be passed over: no unplaced item is left that it could
 * rest on. */
static void search_explain_hatless(struct place_search *search, uint32_t rank) {
    const struct place_state *state = &search->state;
    const uint64_t *meets = state->meets + (size_t)rank * state->words;
    for (uint32_t w = 0; w < state->words; w++)
        search->reason[w] = meets[w] & ~state->open[w];
}

/* Adds the reason of a failure to the frame's conflicts. */
static void search_collect(struct place_search *search, uint32_t frame) {
    const struct place_state *state = &search->state;
    uint64_t *conflicts = search_conflicts(search, frame);
    uint32_t chosen = search->frames[frame].chosen;
    if (!search->has_jumps)
        return;
    for (uint32_t w = 0; w < state->words; w++)
        conflicts[w] |= search->reason[w];
    place_set_drop(conflicts, chosen);
    search_blame(conflicts, state->entries[chosen].at_by);
}

/* The frame's choice has failed. Returns 0 if the choice is not part of the reason, so that no
 * other choice would help. */
static int search_learn(struct place_search *search, uint32_t frame) {
    if (search->has_jumps && !place_set_has(search->reason, search->frames[frame].chosen))
        return 0;
    search_collect(search, frame);
    return 1;
}

/* All candidates of the frame have failed: its conflicts become the reason. */
static void search_conclude(struct place_search *search, uint32_t frame) {
    const struct place_state *state = &search->state;
    if (!search->has_jumps)
        return;
    memcpy(search->reason, search_conflicts(search, frame), state->words * sizeof(uint64_t));
    search_blame(search->reason, state->entries[search->frames[frame].lowest].at_by);
}

/* ---- candidates ---- */

/* Returns the unplaced item of the piece that would have the lowest end now, or PLACE_NONE. */
static uint32_t search_lowest(const struct place_state *state, const uint64_t *set,
                              uint32_t *count) {
    uint64_t least = UINT64_MAX;
    uint32_t lowest = PLACE_NONE;
    *count = 0;
    for (uint32_t w = 0; w < state->words; w++) {
        for (uint64_t bits = set[w] & state->open[w]; bits; bits &= bits - 1) {
            uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(bits);
            uint64_t end = state->entries[r].at + state->entries[r].size;
            if (end < least) {
                least = end;
                lowest = r;
            }
            ++*count;
        }
    }
    return lowest;
}

/* Pushes the items of the piece that stand below `bound` on the stack of tries, lowest first. That
 * includes items that have been passed over, because they are raised with every choice. */
static void search_gather(struct place_search *search, const uint64_t *set, uint64_t bound) {
    struct place_state *state = &search->state;
    const struct place_entry *entries = state->entries;
    uint32_t begin = search->try_count;
    for (uint32_t w = 0; w < state->words; w++) {
        for (uint64_t bits = set[w] & state->open[w]; bits; bits &= bits - 1) {
            uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (entries[r].at >= bound)
                continue;
            uint32_t last = search->try_count++, k = last;
            for (; k > begin && entries[r].at < entries[search->tries[k - 1]].at; k--)
                search->tries[k] = search->tries[k - 1];
            search->tries[k] = r;
            state->work += last - k;
        }
    }
}

/* Begins a node for a piece. Returns 0 if all its items are placed, 1, or -ENOMEM. */
static int search_enter(struct place_search *search, uint32_t set) {
    struct place_state *state = &search->state;
    uint32_t count, lowest = search_lowest(state, search_set(search, set), &count);
    state->work += 2 * (state->words + count);
    if (count == 0)
        return 0;
    if (!search_has_tries(search, count))
        return -ENOMEM;
    memset(search_conflicts(search, search->frame_count), 0, state->words * sizeof(uint64_t));
    struct search_frame *frame = &search->frames[search->frame_count++];
    *frame = (struct search_frame){.set = set,
                                   .tries_begin = search->try_count,
                                   .next = search->try_count,
                                   .lowest = lowest,
                                   .pieces_begin = search->set_count,
                                   .pieces_end = search->set_count,
                                   .trail = state->trail_count};
    search_gather(search, search_set(search, set),
                  state->entries[lowest].at + state->entries[lowest].size);
    frame->tries_end = search->try_count;
    return 1;
}

/* ---- trying ---- */

/* Returns the lowest level at which the item can lie if it is not placed where it stands and no
 * more items are placed below `level`. UINT64_MAX: none. */
static uint64_t search_lift(struct place_state *state, uint32_t rank, uint64_t level) {
    const uint64_t *meets = state->meets + (size_t)rank * state->words;
    uint64_t least = UINT64_MAX;
    state->work += state->words;
    for (uint32_t w = 0; w < state->words; w++) {
        for (uint64_t bits = meets[w] & state->open[w]; bits; bits &= bits - 1) {
            const struct place_entry *other =
                &state->entries[w * 64 + (uint32_t)__builtin_ctzll(bits)];
            uint64_t end = (other->low > level ? other->low : level) + other->size;
            least = end < least ? end : least;
            state->work++;
        }
    }
    return least == UINT64_MAX ? least : place_align_up(least, state->entries[rank].align);
}

/* Raises all items that come before the chosen one in the canonical order. Returns 0 with a reason
 * if one of them cannot be raised. Ends early when the search is stopped. */
static int search_pass_over(struct place_search *search, const struct search_frame *frame,
                            uint32_t chosen) {
    struct place_state *state = &search->state;
    uint32_t by = search->tries[chosen];
    for (uint32_t k = frame->tries_begin; k < chosen && !place_is_stopped(state->meter); k++) {
        uint32_t rank = search->tries[k];
        uint64_t low = search_lift(state, rank, state->entries[by].at);
        if (low == UINT64_MAX) {
            search_explain_hatless(search, rank);
            return 0;
        }
        if (!acre__place_state_raise(state, rank, low, by)) {
            search_explain(search);
            return 0;
        }
    }
    return 1;
}

/* Adds a piece of the items that begin in [from, to), if there are any. */
static void search_add_piece(struct place_search *search, uint32_t set, uint32_t from,
                             uint32_t to) {
    struct place_state *state = &search->state;
    const uint64_t *all = search_set(search, set);
    uint64_t *some = search_set(search, search->set_count);
    int is_any = 0;
    memset(some, 0, state->words * sizeof *some);
    state->work += 4 * (uint64_t)state->words;
    for (uint32_t r = place_next(state, all, 0); r != PLACE_NONE;
         r = place_next(state, all, r + 1)) {
        if (state->entries[r].first >= from && state->entries[r].first < to) {
            place_set_add(some, r);
            is_any = 1;
        }
    }
    search->set_count += (uint32_t)is_any;
}

/* Computes the pieces that are left after the item was placed; none if the frame's own set is still
 * connected. */
static void search_split(struct place_search *search, struct search_frame *frame, uint32_t rank) {
    const struct place_entry *entry = &search->state.entries[rank];
    uint32_t from = 0;
    search->set_count = frame->pieces_begin;
    for (uint32_t s = entry->first + 1; s < entry->end; s++) {
        if (search->state.sections[s].crossing == 0) {
            search_add_piece(search, frame->set, from, s);
            from = s;
        }
    }
    if (from)
        search_add_piece(search, frame->set, from, UINT32_MAX);
    frame->piece = 0;
    frame->pieces_end = search->set_count;
}

/* Charges a step as at least one node, so that no step takes longer than it is charged for. */
static void search_charge(struct place_search *search, struct place_attempt *attempt) {
    search->state.meter->work += PLACE_NODE + search->state.work;
    search->state.work = 0;
    attempt->steps--;
}

/* Tries the next candidates of the last frame. Returns 1 if one was placed, 0 if the frame has
 * failed, -ENOMEM, or -EAGAIN if the steps or the budget ran out. */
static int search_try(struct place_search *search, struct place_attempt *attempt) {
    struct place_state *state = &search->state;
    uint32_t number = search->frame_count - 1;
    struct search_frame *frame = &search->frames[number];
    while (!frame->is_last && frame->next < frame->tries_end) {
        uint32_t chosen = frame->next++, rank = search->tries[chosen];
        if (state->entries[rank].low > state->entries[rank].at)
            continue;
        if (attempt->steps == 0 || place_is_spent(state->meter))
            return -EAGAIN;
        search_charge(search, attempt);
        frame->chosen = rank;
        int can_pass = search_pass_over(search, frame, chosen);
        if (can_pass) {
            if (acre__place_state_put(state, rank)) {
                search_split(search, frame, rank);
                return 1;
            }
            search_explain(search);
        }
        if (state->is_broken)
            return -ENOMEM;
        acre__place_state_back(state, frame->trail);
        /* An item that cannot be passed over for this candidate cannot be for a later, higher one
         * either. */
        if (!can_pass) {
            search_collect(search, number);
            frame->is_last = 1;
        } else if (!search_learn(search, number)) {
            return 0;
        }
    }
    search_conclude(search, number);
    return 0;
}

/* The last frame has failed with a reason: returns to the last frame that can try another
 * candidate. Returns 0 if there is none. */
static int search_fail(struct place_search *search) {
    while (--search->frame_count) {
        uint32_t parent = search->frame_count - 1;
        acre__place_state_back(&search->state, search->frames[parent].trail);
        if (search_learn(search, parent))
            return 1;
    }
    return 0;
}

/* The last frame's item is placed: enters the next piece with unplaced items, in this frame or in
 * those above. Returns 1 if there is one, 0 if the problem is solved, or -ENOMEM. */
static int search_advance(struct place_search *search) {
    while (search->frame_count) {
        struct search_frame *frame = &search->frames[search->frame_count - 1];
        uint32_t count = frame->pieces_end - frame->pieces_begin;
        uint32_t piece = frame->piece++;
        if (piece >= (count ? count : 1)) {
            search->frame_count--;
            continue;
        }
        int rc = search_enter(search, count ? frame->pieces_begin + piece : frame->set);
        if (rc)
            return rc;
    }
    return 0;
}

static int search_walk(struct place_search *search, struct place_attempt *attempt) {
    int rc = search_enter(search, 0);
    while (rc > 0) {
        const struct search_frame *frame = &search->frames[search->frame_count - 1];
        search->try_count = frame->tries_end;
        search->set_count = frame->pieces_end;
        rc = search_try(search, attempt);
        if (rc > 0)
            rc = search_advance(search);
        else if (rc == 0 && !search_fail(search))
            return place_is_stopped(search->state.meter) ? PLACE_GAVE_UP : PLACE_IMPOSSIBLE;
        else if (rc == 0)
            rc = 1;
    }
    if (rc == -EAGAIN)
        return PLACE_GAVE_UP;
    return rc ? rc : PLACE_SOLVED;
}

int acre__place_search_run(struct place_search *search, struct place_attempt *attempt,
                           uint64_t *offsets) {
    struct place_state *state = &search->state;
    const struct place_part *part = state->part;
    search->frame_count = search->set_count = search->try_count = 0;
    search->has_jumps = attempt->has_jumps;
    memset(search->heat, 0, part->count * sizeof *search->heat);
    int fits = acre__place_state_reset(state, attempt->order, attempt->capacity);
    state->meter->work += state->work;
    state->work = 0;
    if (!fits)
        return place_is_stopped(state->meter) ? PLACE_GAVE_UP : PLACE_IMPOSSIBLE;
    memcpy(search->sets, state->open, state->words * sizeof *state->open);
    search->set_count = 1;
    int rc = search_walk(search, attempt);
    for (uint32_t r = 0; rc == PLACE_SOLVED && r < state->count; r++)
        offsets[state->entries[r].item] = state->entries[r].at;
    return rc;
}

const uint32_t *acre__place_search_heat(const struct place_search *search) {
    return search->heat;
}

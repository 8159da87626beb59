/* Folded stacks, for flamegraph.pl and speedscope: one line for each tag and call stack, the
 * outermost frame first, separated by ';', and at the end the bytes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "export.h"
#include "number_map.h"

struct folded_sum {
    uint32_t tag, stack;
    uint64_t bytes;
};

struct folded {
    struct number_map places; /* by tag and stack: the index of the sum, from 1 */
    struct folded_sum *sums;
    size_t count, room;
};

static void folded_add(struct folded *folded, uint32_t tag, uint32_t stack, uint64_t bytes) {
    uint64_t key = (uint64_t)tag << 32 | stack, place = number_map_get(&folded->places, key);
    if (place == 0 || place > folded->count) {
        if (folded->count == folded->room) {
            folded->room = folded->room ? 2 * folded->room : 256;
            struct folded_sum *longer = cli_alloc(folded->room * sizeof *longer);
            if (folded->count) {
                memcpy(longer, folded->sums, folded->count * sizeof *longer);
            }
            free(folded->sums);
            folded->sums = longer;
        }
        folded->sums[folded->count++] = (struct folded_sum){tag, stack, 0};
        place = folded->count;
        number_map_set(&folded->places, key, place);
    }
    folded->sums[place - 1].bytes += bytes;
}

static int folded_compare(const void *a, const void *b) {
    const struct folded_sum *x = a, *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    if (x->tag != y->tag) {
        return x->tag < y->tag ? -1 : 1;
    }
    return (x->stack > y->stack) - (x->stack < y->stack);
}

/* Writes a name, in which ';' would begin the next frame. */
static void folded_name(FILE *out, const char *name) {
    for (; *name; name++) {
        putc_unlocked(*name == ';' ? ':' : *name, out);
    }
}

static void folded_line(FILE *out, const struct events *events, const struct folded_sum *sum) {
    if (sum->tag || !sum->stack) {
        folded_name(out, sum->tag ? export_tag(events, sum->tag) : "(no tag or call stack)");
    }
    if (sum->stack) {
        const struct event_stack *stack = &events->stacks[sum->stack - 1];
        for (uint32_t i = stack->count; i-- > 0;) {
            char *name =
                export_frame(events, &events->frames[events->stack_frames[stack->first + i]]);
            if (sum->tag || i + 1 < stack->count) {
                putc_unlocked(';', out);
            }
            folded_name(out, name);
            free(name);
        }
    }
    fprintf(out, " %" PRIu64 "\n", sum->bytes);
}

void export_folded(FILE *out, const struct export_job *job) {
    const struct events *events = job->events;
    struct export_block *blocks = cli_alloc(events->blocks * sizeof *blocks), ended;
    struct folded folded = {0};
    size_t count = job->when == EXPORT_AT_PEAK ? export_peak(events) : events->count;
    for (size_t i = 0; i < count; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        export_apply(events, event, blocks, &ended);
        if (job->when == EXPORT_CHURN && event->kind != EVENT_FREE) {
            folded_add(&folded, event->tag, event->stack, event->bytes);
        }
    }
    for (size_t i = 0; job->when != EXPORT_CHURN && i < events->blocks; i++) {
        if (blocks[i].bytes) {
            folded_add(&folded, blocks[i].tag, blocks[i].stack, blocks[i].bytes);
        }
    }
    if (folded.count) {
        qsort(folded.sums, folded.count, sizeof *folded.sums, folded_compare);
    }
    for (size_t i = 0; i < folded.count; i++) {
        folded_line(out, events, &folded.sums[i]);
    }
    number_map_free(&folded.places);
    free(folded.sums);
    free(blocks);
}

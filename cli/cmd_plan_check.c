/* Checks an existing plan and names the buffers that make it invalid. */
#include <inttypes.h>
#include <stdlib.h>

#include "cmd_plan.h"
#include "events_file.h"
#include "wishes.h"

char *plan_describe(const struct wishes *wishes, size_t index) {
    const struct acre__place_buffer *buffer = &wishes->list[index];
    char name[WISH_NAME_BYTES];
    return cli_format("'%s' (bytes %" PRIu64 " to %" PRIu64 ", live %" PRId64 " to %" PRId64 ")",
                      wishes_name(wishes, index, name), buffer->offset,
                      buffer->offset + buffer->size, buffer->lower, buffer->upper);
}

static void plan_wrong(struct plan_answer *answer, const struct wishes *wishes, size_t first,
                       size_t second, char *what) {
    char name[WISH_NAME_BYTES];
    answer->wrong = what;
    answer->wrong_ids[0] = cli_format("%s", wishes_name(wishes, first, name));
    if (second != first) {
        answer->wrong_ids[1] = cli_format("%s", wishes_name(wishes, second, name));
    }
    cli_say("%s: %s", answer->offsets, what);
}

/* Describes what is invalid about a single buffer: its alignment, or its end. */
static char *plan_blame(const struct plan_answer *answer, const struct wishes *wishes,
                        size_t index) {
    const struct acre__place_buffer *buffer = &wishes->list[index];
    char *described = plan_describe(wishes, index), *what;
    if (buffer->offset & (buffer->align - 1)) {
        what = cli_format("%s is not at a multiple of %" PRIu64, described, buffer->align);
    } else {
        what = cli_format("%s ends beyond the capacity of %" PRIu64 " bytes", described,
                          answer->capacity_bytes);
    }
    free(described);
    return what;
}

/* Checks that no end overflows, and computes the size of the plan. Must run before ends are
 * compared. */
static bool plan_ends(const struct wishes *wishes, struct plan_answer *answer) {
    for (size_t i = 0; i < wishes->count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[i];
        char name[WISH_NAME_BYTES];
        if (buffer->offset > UINT64_MAX - buffer->size) {
            plan_wrong(answer, wishes, i, i,
                       cli_format("'%s' at %" PRIu64 " ends beyond 64 bits",
                                  wishes_name(wishes, i, name), buffer->offset));
            answer->placed.bytes = 0;
            return false;
        }
        uint64_t end = buffer->offset + buffer->size;
        answer->placed.bytes = end > answer->placed.bytes ? end : answer->placed.bytes;
    }
    return true;
}

static int plan_verify(const struct wishes *wishes, struct plan_answer *answer) {
    size_t first = 0, second = 0;
    uint64_t capacity = answer->capacity_bytes;
    if (!plan_ends(wishes, answer)) {
        return CLI_FINDING;
    }
    answer->placed.is_fitting = !capacity || answer->placed.bytes <= capacity;
    if (acre__place_verify(wishes->list, wishes->count, capacity, &first, &second) == 0) {
        return CLI_OK;
    }
    if (first == second) {
        plan_wrong(answer, wishes, first, first, plan_blame(answer, wishes, first));
        return CLI_FINDING;
    }
    char *one = plan_describe(wishes, first), *other = plan_describe(wishes, second);
    plan_wrong(answer, wishes, first, second, cli_format("%s and %s overlap", one, other));
    free(one);
    free(other);
    return CLI_FINDING;
}

/* Checks that fixed buffers are at their offsets in `fixed`. */
static int plan_check_fixed(const struct wishes *wishes, const uint64_t *fixed,
                            struct plan_answer *answer) {
    for (size_t i = 0; i < wishes->count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[i];
        char name[WISH_NAME_BYTES];
        if (buffer->is_fixed && buffer->offset != fixed[i]) {
            plan_wrong(answer, wishes, i, i,
                       cli_format("'%s' is fixed at %" PRIu64 ", not at %" PRIu64,
                                  wishes_name(wishes, i, name), fixed[i], buffer->offset));
            return CLI_FINDING;
        }
    }
    return CLI_OK;
}

int plan_check(struct wishes *wishes, struct plan_answer *answer) {
    struct file_bytes packed = {0}, text = {0};
    size_t missing = 0;
    uint64_t *fixed = cli_alloc((wishes->count + 1) * sizeof *fixed);
    for (size_t i = 0; i < wishes->count; i++) {
        fixed[i] = wishes->list[i].offset;
    }
    answer->placed.lower_bound = acre__place_lower_bound(wishes->list, wishes->count);
    int code = file_load(answer->offsets, &packed);
    const unsigned char *bytes = packed.at;
    size_t count = packed.count;
    const char *name_of_file = file_name(answer->offsets);
    code = code ? code : file_unpack(name_of_file, &bytes, &count, &text);
    if (code == CLI_OK) {
        code = wishes_read_offsets(name_of_file, bytes, count, wishes, &missing);
    }
    free(packed.at);
    free(text.at);
    if (code == CLI_OK && missing < wishes->count) {
        char name[WISH_NAME_BYTES];
        plan_wrong(answer, wishes, missing, missing,
                   cli_format("'%s' has no offset", wishes_name(wishes, missing, name)));
        code = CLI_FINDING;
    }
    code = code ? code : plan_verify(wishes, answer);
    code = code ? code : plan_check_fixed(wishes, fixed, answer);
    free(fixed);
    return code;
}

/* One input for `acre plan`: a file of lifetimes and, behind a form feed, a file of offsets;
 * without one the first file is taken for both.
 *
 * Whatever the bytes are, the readers must not touch memory that is not theirs, must say once what
 * is wrong if they refuse, and must give buffers that can be placed if they do not. What is placed
 * must be right, must be written and read back as it was, and can be drawn. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "events_file.h"
#include "fuzz_quiet.h"
#include "picture.h"
#include "wishes.h"

enum {
    FUZZ_BUFFERS = 300, /* more are only read: the placer has tests of its own */
    FUZZ_NODES = 2000,
    FUZZ_DRAWN = 16 /* one in so many is drawn, since that takes longer than all the rest */
};

static void fuzz_check_wishes(const struct wishes *wishes) {
    FUZZ_CHECK(wishes->format != NULL);
    for (size_t i = 0; i < wishes->count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[i];
        FUZZ_CHECK(buffer->size > 0 && buffer->lower >= 0 && buffer->upper > buffer->lower);
        FUZZ_CHECK(buffer->align > 0 && (buffer->align & (buffer->align - 1)) == 0);
        FUZZ_CHECK(wishes->names[i].length > 0 && wishes->names[i].line > 1);
    }
}

/* What was written is what is read. */
static void fuzz_read_back(struct wishes *wishes) {
    char *text = NULL;
    size_t bytes = 0, missing = 0;
    uint64_t *before = cli_alloc(wishes->count * sizeof *before);
    FILE *out = open_memstream(&text, &bytes);
    FUZZ_CHECK(out != NULL);
    wishes_write_offsets(out, wishes);
    FUZZ_CHECK(fclose(out) == 0);
    for (size_t i = 0; i < wishes->count; i++) {
        before[i] = wishes->list[i].offset;
        wishes->list[i].offset = ~before[i];
    }
    FUZZ_CHECK(wishes_read_offsets("input", (unsigned char *)text, bytes, wishes, &missing) == 0);
    FUZZ_CHECK(missing == wishes->count);
    for (size_t i = 0; i < wishes->count; i++) {
        FUZZ_CHECK(wishes->list[i].offset == before[i]);
    }
    free(before);
    free(text);
}

static void fuzz_draw(const struct wishes *wishes, uint64_t bytes, uint64_t lower_bound) {
    static const char begin[] = "<svg ", end[] = "</svg>\n";
    const struct picture picture = {.wishes = wishes,
                                    .title = "<&\">",
                                    .time_unit = "time",
                                    .bytes = bytes,
                                    .lower_bound = lower_bound,
                                    .capacity = bytes / 2 * 3};
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    FUZZ_CHECK(out != NULL);
    picture_write(out, &picture);
    FUZZ_CHECK(fclose(out) == 0 && count > sizeof begin + sizeof end);
    FUZZ_CHECK(strncmp(text, begin, sizeof begin - 1) == 0);
    FUZZ_CHECK(strcmp(text + count - (sizeof end - 1), end) == 0);
    free(text);
}

static void fuzz_place(struct wishes *wishes, bool is_drawn) {
    const struct acre__place_options options = {.budget = FUZZ_NODES};
    struct acre__place_result result = {0};
    size_t first = 0, second = 0;
    int error = acre__place(wishes->list, wishes->count, &options, &result);
    bool has_fixed = false; /* which may overlap */
    for (size_t i = 0; i < wishes->count; i++) {
        has_fixed = has_fixed || wishes->list[i].is_fixed;
    }
    FUZZ_CHECK(error == 0 || error == -EOVERFLOW || (error == -EINVAL && has_fixed));
    if (error) {
        return;
    }
    FUZZ_CHECK(result.bytes >= result.lower_bound && result.is_fitting);
    FUZZ_CHECK(acre__place_verify(wishes->list, wishes->count, result.bytes, &first, &second) == 0);
    if (wishes->count) {
        fuzz_read_back(wishes);
    }
    if (is_drawn) {
        fuzz_draw(wishes, result.bytes, result.lower_bound);
    }
}

static void fuzz_offsets(const unsigned char *bytes, size_t count, struct wishes *wishes) {
    struct file_bytes text = {0};
    size_t missing = 0;
    fuzz_begin();
    int code = file_unpack("input", &bytes, &count, &text);
    code = code ? code : wishes_read_offsets("input", bytes, count, wishes, &missing);
    if (code) {
        fuzz_check_refusal(code);
    } else {
        FUZZ_CHECK(fuzz_said() == 0 && missing <= wishes->count);
    }
    free(text.at);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count) {
    const unsigned char *feed = count ? memchr(bytes, '\f', count) : NULL;
    const unsigned char *second = feed ? feed + 1 : bytes, *first = bytes;
    size_t first_count = feed ? (size_t)(feed - bytes) : count;
    size_t second_count = feed ? count - first_count - 1 : count;
    struct file_bytes text = {0};
    struct wishes wishes = {0};
    fuzz_begin();
    int code = file_unpack("input", &first, &first_count, &text);
    code = code ? code : wishes_read("input", first, first_count, &wishes);
    if (code) {
        fuzz_check_refusal(code);
    } else {
        FUZZ_CHECK(fuzz_said() == 0);
        fuzz_check_wishes(&wishes);
        fuzz_offsets(second, second_count, &wishes);
        if (wishes.count <= FUZZ_BUFFERS) {
            fuzz_begin();
            fuzz_place(&wishes, count % FUZZ_DRAWN == 0);
        }
    }
    wishes_free(&wishes);
    free(text.at);
    return 0;
}

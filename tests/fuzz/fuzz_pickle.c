/* One input for the reader of pickles: the entry point that libFuzzer, the stored corpus and its
 * mutations share.
 *
 * Whatever the bytes are, the reader must not touch memory that is not its own (the sanitizers see
 * to that). If it refuses, it says why, at an offset in the file; if not, every value can be looked
 * at, and a snapshot becomes events or is refused in one line. */
#include "cli.h"
#include "events.h"
#include "fuzz_quiet.h"
#include "pickle.h"

static uint64_t fuzz_sum; /* of all bytes that values have, so that they are read */

static void fuzz_value(const struct pickle *pickle, uint64_t value) {
    const char *text;
    size_t bytes;
    uint64_t number = 0;
    enum pickle_kind kind = pickle_kind(value);
    FUZZ_CHECK(kind > PICKLE_NOTHING && kind <= PICKLE_DICT);
    if (pickle_text(pickle, value, &text, &bytes)) {
        FUZZ_CHECK(kind == PICKLE_TEXT);
        FUZZ_CHECK((const unsigned char *)text + bytes <= pickle->bytes + pickle->count);
        for (size_t i = 0; i < bytes; i++) {
            fuzz_sum += (unsigned char)text[i];
        }
    }
    if (pickle_number(pickle, value, &number)) {
        FUZZ_CHECK(kind == PICKLE_SMALL || kind == PICKLE_SCALAR);
        fuzz_sum += number;
    }
    fuzz_sum += pickle_get(pickle, value, "segments") + pickle_length(pickle, value);
}

static void fuzz_walk(const struct pickle *pickle) {
    fuzz_value(pickle, pickle->root);
    for (size_t i = 0; i < pickle->box_count; i++) {
        const struct pickle_box *box = &pickle->boxes[i];
        FUZZ_CHECK(box->count <= box->room);
        FUZZ_CHECK(box->start + box->room <= pickle->items.count);
        for (uint32_t k = 0; k < box->count; k++) {
            fuzz_value(pickle, pickle->items.at[box->start + k]);
        }
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count) {
    struct pickle pickle;
    struct events events = {0};
    fuzz_begin();
    bool is_read = pickle_read(&pickle, bytes, count);
    FUZZ_CHECK(fuzz_said() == 0);
    if (is_read) {
        fuzz_walk(&pickle);
    } else {
        FUZZ_CHECK(pickle.fault[0] && pickle.fault_at <= count);
    }
    pickle_free(&pickle);
    int code = events_read_torch("input", bytes, count, &events);
    FUZZ_CHECK(is_read || code == CLI_CANNOT);
    if (code) {
        fuzz_check_refusal(code);
    }
    events_free(&events);
    return 0;
}

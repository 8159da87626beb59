/* Reads the file of `acre run` (run_file.h) into a checked private copy; see run_report.h.
 *
 * Every record is copied before its fields are checked, since a process may still write to it. */
#include <stdlib.h>
#include <string.h>

#include "run_report.h"

enum { COLLECT_UNSUPPORTED = 801 }; /* CUDA_ERROR_NOT_SUPPORTED, in both libraries */

/* ---- chunks ---- */

static const unsigned char *chunk_at(const void *base, uint32_t chunk) {
    return (const unsigned char *)base + (size_t)chunk * RUN_CHUNK_BYTES;
}

static uint32_t chunk_count(const void *base) {
    const struct run_file *file = base;
    uint32_t count = atomic_load_explicit(&file->chunk_count, memory_order_acquire);
    if (file->magic != RUN_MAGIC)
        return 0;
    return count < RUN_CHUNK_LIMIT ? count : RUN_CHUNK_LIMIT;
}

/* Copies a head. Its kind becomes 0 if its process has not filled it, or if it is damaged. Returns
 * 1 in the second case. */
static int head_read(const void *base, uint32_t chunk, struct run_head *head) {
    const struct run_head *shared = (const void *)chunk_at(base, chunk);
    uint32_t kind = atomic_load_explicit(&shared->kind, memory_order_acquire);
    memcpy(head, shared, sizeof *head);
    head->kind = kind;
    if (head->seal == acre__run_seal(head) && head->state >> 16 == (head->state & 0xffff))
        return 0;
    head->kind = 0;
    return kind != RUN_CHUNK_TAKEN;
}

uint32_t acre__run_next(const void *base, uint32_t chunk) {
    uint32_t count = chunk_count(base);
    struct run_head head;
    while (++chunk < count) {
        head_read(base, chunk, &head);
        if (head.kind == RUN_CHUNK_NOTES && head.process == chunk)
            return chunk;
    }
    return 0;
}

int acre__run_is_damaged(const void *base) {
    uint32_t count = chunk_count(base);
    struct run_head head;
    for (uint32_t chunk = 1; chunk < count; chunk++) {
        if (head_read(base, chunk, &head))
            return 1;
    }
    if (count == 0 || count == RUN_CHUNK_LIMIT)
        return count == 0;
    if (!head_read(base, count, &head) && !head.kind)
        return 0; /* a process takes it now */
    /* The count is too small, unless a process has taken the chunk since. */
    atomic_thread_fence(memory_order_acquire);
    return head.seal != 0 && chunk_count(base) == count;
}

/* ---- texts ---- */

/* Copies a text that need not end. Bytes that are not printable ASCII become '?': the text may go
 * to a terminal. */
static void text_copy(char *out, const char *text, size_t bytes) {
    size_t i = 0;
    for (; i + 1 < bytes && text[i]; i++)
        out[i] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    out[i] = '\0';
}

/* Copies the note with that number; 0 if there is none. */
static int note_read(const void *base, uint32_t number, struct run_note *note) {
    uint32_t chunk = number / RUN_NOTE_BASE, index = number % RUN_NOTE_BASE;
    struct run_head head;
    if (chunk == 0 || chunk >= chunk_count(base) || index >= RUN_NOTES)
        return 0;
    head_read(base, chunk, &head);
    if (head.kind != RUN_CHUNK_NOTES)
        return 0;
    memcpy(note, chunk_at(base, chunk) + RUN_HEAD_BYTES + index * sizeof *note, sizeof *note);
    return 1;
}

static void site_read(const void *base, uint32_t number, struct run_site *site) {
    struct run_note note;
    strcpy(site->call, "?");
    strcpy(site->place, "?");
    site->from[0] = '\0';
    if (!note_read(base, number, &note) || note.type != RUN_NOTE_SITE)
        return;
    text_copy(site->call, note.name, sizeof site->call);
    text_copy(site->place, note.text, sizeof site->place);
    char *from = strstr(site->place, RUN_FROM);
    if (from) {
        text_copy(site->from, from + strlen(RUN_FROM), sizeof site->from);
        *from = '\0';
    }
}

/* ---- rows ---- */

/* Returns room for one more row, or NULL. */
static void *rows_add(void *rows_pointer, size_t *count, size_t row_bytes) {
    void **rows = rows_pointer;
    if ((*count & (*count - 1)) == 0) { /* a power of two, or 0: full */
        void *more = realloc(*rows, (*count ? *count * 2 : 1) * row_bytes);
        if (!more)
            return NULL;
        *rows = more;
    }
    return (char *)*rows + (*count)++ * row_bytes;
}

/* A live block, for sorting. */
struct collect_block {
    uint32_t kind, site, is_lost, count;
    uint64_t key, bytes, number;
};

struct collect {
    void *base;
    struct run_collection *out;
    struct collect_block *blocks;
    size_t block_count;
};

static void collect_blocks(struct collect *collect, uint32_t chunk) {
    for (uint32_t i = 0; i < RUN_BLOCKS; i++) {
        struct run_block block;
        memcpy(&block, chunk_at(collect->base, chunk) + RUN_HEAD_BYTES + i * sizeof block,
               sizeof block);
        int is_lost = block.state == RUN_BLOCK_LOST;
        if ((block.state != RUN_BLOCK_LIVE && !is_lost) || block.kind >= RUN_KIND_COUNT)
            continue;
        struct collect_block *row = rows_add(&collect->blocks, &collect->block_count, sizeof *row);
        if (!row) {
            collect->out->is_incomplete = 1;
            return;
        }
        *row = (struct collect_block){
            block.kind, block.site,  (uint32_t)is_lost, block.count ? block.count : 1,
            block.key,  block.bytes, block.number};
    }
}

static int collect_call(struct run_collection *out, const void *base, const struct run_note *note) {
    struct run_call *call = rows_add(&out->calls, &out->call_rows, sizeof *call);
    if (!call)
        return 0;
    *call = (struct run_call){.code = note->code,
                              .number = note->number,
                              .count = note->count,
                              .is_unsupported = note->code == COLLECT_UNSUPPORTED};
    site_read(base, note->site, &call->site);
    text_copy(call->error, note->name, sizeof call->error);
    text_copy(call->why, note->text, sizeof call->why);
    return 1;
}

static int collect_wrong(struct run_collection *out, const struct run_note *note) {
    struct run_wrong *wrong = rows_add(&out->wrongs, &out->wrong_rows, sizeof *wrong);
    if (!wrong)
        return 0;
    *wrong = (struct run_wrong){.number = note->number};
    text_copy(wrong->text, note->text, sizeof wrong->text);
    return 1;
}

static int collect_counted(struct run_collection *out, const struct run_note *note) {
    struct run_counted *counted = rows_add(&out->counted, &out->counted_rows, sizeof *counted);
    if (!counted)
        return 0;
    *counted = (struct run_counted){.number = note->number, .count = note->count};
    text_copy(counted->call, note->name, sizeof counted->call);
    return 1;
}

static void collect_notes(struct collect *collect, uint32_t chunk) {
    for (uint32_t i = 0; i < RUN_NOTES; i++) {
        struct run_note note;
        int is_kept = 1;
        memcpy(&note, chunk_at(collect->base, chunk) + RUN_HEAD_BYTES + i * sizeof note,
               sizeof note);
        if (note.type == RUN_NOTE_CALL)
            is_kept = collect_call(collect->out, collect->base, &note);
        else if (note.type == RUN_NOTE_WRONG)
            is_kept = collect_wrong(collect->out, &note);
        else if (note.type == RUN_NOTE_COUNTED)
            is_kept = collect_counted(collect->out, &note);
        if (!is_kept)
            collect->out->is_incomplete = 1;
    }
}

/* ---- leaks ---- */

static int order(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int block_order(const void *a, const void *b) {
    const struct collect_block *one = a, *other = b;
    int by = order(one->kind, other->kind);
    by = by ? by : order(one->site, other->site);
    by = by ? by : order(one->is_lost, other->is_lost);
    return by ? by : order(one->number, other->number);
}

/* The largest first; of equal ones the oldest. Blocks of libacre have no number. */
static int leak_order(const void *a, const void *b) {
    const struct run_leak *one = a, *other = b;
    int by = order(other->bytes, one->bytes);
    by = by ? by : order(one->number, other->number);
    return by ? by : strcmp(one->site.place, other->site.place);
}

static int call_order(const void *a, const void *b) {
    return order(((const struct run_call *)a)->number, ((const struct run_call *)b)->number);
}

static int wrong_order(const void *a, const void *b) {
    return order(((const struct run_wrong *)a)->number, ((const struct run_wrong *)b)->number);
}

static int counted_order(const void *a, const void *b) {
    return order(((const struct run_counted *)a)->number, ((const struct run_counted *)b)->number);
}

static void sort(void *rows, size_t count, size_t row_bytes,
                 int (*in_order)(const void *, const void *)) {
    if (count > 1)
        qsort(rows, count, row_bytes, in_order);
}

/* Groups blocks of one kind and site. */
static void collect_leaks(struct collect *collect) {
    struct run_collection *out = collect->out;
    struct run_leak *leak = NULL;
    sort(collect->blocks, collect->block_count, sizeof collect->blocks[0], block_order);
    for (size_t i = 0; i < collect->block_count; i++) {
        const struct collect_block *block = &collect->blocks[i];
        if (i == 0 || block->kind != block[-1].kind || block->site != block[-1].site ||
            block->is_lost != block[-1].is_lost) {
            leak = rows_add(&out->leaks, &out->leak_rows, sizeof *leak);
            if (!leak) {
                out->is_incomplete = 1;
                return;
            }
            *leak = (struct run_leak){.kind = (enum run_kind)block->kind,
                                      .is_lost = block->is_lost != 0,
                                      .first = block->key,
                                      .number = block->number};
            site_read(collect->base, block->site, &leak->site);
        }
        leak->count += block->count;
        leak->bytes += block->bytes;
    }
}

/* Returns 1 if libacre made the call, as a shared library. */
static int site_is_in_acre(const struct run_site *site) {
    static const char name[] = "libacre.so"; /* libacre.so.0.3+0x11d8 */
    size_t length = sizeof name - 1;
    return strncmp(site->place, name, length) == 0 &&
           (site->place[length] == '.' || site->place[length] == '+');
}

/* Drops memory that libacre has allocated for its devices if one is still open: the open device is
 * the leak, and it is listed. libacre cannot free memory of a device that a wrong use has lost.
 * Otherwise the memory is a leak of libacre. */
static void drop_memory_of_acre(struct run_collection *out) {
    size_t kept = 0;
    int is_open = out->wrong_rows > 0;
    for (size_t i = 0; i < out->leak_rows; i++)
        is_open |= out->leaks[i].kind == RUN_OPENED;
    for (size_t i = 0; i < out->leak_rows; i++) {
        const struct run_leak *leak = &out->leaks[i];
        if (!is_open || leak->kind == RUN_OPENED || leak->kind == RUN_ACRE ||
            !site_is_in_acre(&leak->site))
            out->leaks[kept++] = *leak;
    }
    out->leak_rows = kept;
}

/* ---- suppressions ---- */

/* Copies "libfoo.so" of "libfoo.so+0x11d8". */
static const char *module_of(const char *place, char module[RUN_TEXT_BYTES]) {
    size_t length = strcspn(place, "+");
    memcpy(module, place, length);
    module[length] = '\0';
    return module;
}

static void apply_rules(struct run_file *file, struct run_collection *out) {
    char module[RUN_TEXT_BYTES], outer[RUN_TEXT_BYTES];
    for (size_t i = 0; i < out->leak_rows; i++) {
        struct run_leak *leak = &out->leaks[i];
        const char *texts[] = {leak->site.call, leak->site.place,
                               module_of(leak->site.place, module), leak->site.from,
                               module_of(leak->site.from, outer)};
        leak->is_suppressed =
            acre__run_rules_match(file, "leak", texts, leak->site.from[0] ? 5 : 3);
        *(leak->is_suppressed ? &out->leaks_suppressed : &out->leak_count) += leak->count;
    }
    for (size_t i = 0; i < out->call_rows; i++) {
        struct run_call *call = &out->calls[i];
        const char *texts[] = {
            call->site.call, call->site.place, module_of(call->site.place, module),
            call->error,     call->site.from,  module_of(call->site.from, outer)};
        call->is_suppressed =
            acre__run_rules_match(file, "error", texts, call->site.from[0] ? 6 : 4);
        if (call->is_unsupported)
            *(call->is_suppressed ? &out->unsupported_suppressed : &out->unsupported_count) +=
                call->count;
        else
            *(call->is_suppressed ? &out->calls_suppressed : &out->call_count) += call->count;
    }
    for (size_t i = 0; i < out->wrong_rows; i++) {
        struct run_wrong *wrong = &out->wrongs[i];
        const char *texts[] = {wrong->text};
        wrong->is_suppressed = acre__run_rules_match(file, "race", texts, 1);
        out->wrongs_suppressed += wrong->is_suppressed != 0;
    }
}

/* ---- a process ---- */

void acre__run_peek(const void *base, uint32_t chunk, struct run_collection *out) {
    struct run_head head;
    head_read(base, chunk, &head);
    *out = (struct run_collection){.pid = head.pid,
                                   .state = head.state & 0xffff,
                                   .copied_bytes = head.copied_bytes,
                                   .wrong_count = head.wrong};
    memcpy(out->counts, head.counts, sizeof out->counts);
    text_copy(out->program, head.program, sizeof out->program);
}

void acre__run_collect(void *base, uint32_t chunk, struct run_collection *out) {
    struct collect collect = {.base = base, .out = out};
    struct run_file *file = base;
    uint32_t count = chunk_count(base);
    acre__run_peek(base, chunk, out);
    out->is_incomplete = atomic_load_explicit(&file->dropped, memory_order_relaxed) != 0;
    for (uint32_t i = chunk; i < count; i++) {
        struct run_head head;
        head_read(base, i, &head);
        if (head.process == chunk && head.kind == RUN_CHUNK_BLOCKS)
            collect_blocks(&collect, i);
        else if (head.process == chunk && head.kind == RUN_CHUNK_NOTES)
            collect_notes(&collect, i);
    }
    collect_leaks(&collect);
    free(collect.blocks);
    drop_memory_of_acre(out);
    sort(out->leaks, out->leak_rows, sizeof *out->leaks, leak_order);
    sort(out->calls, out->call_rows, sizeof *out->calls, call_order);
    sort(out->wrongs, out->wrong_rows, sizeof *out->wrongs, wrong_order);
    sort(out->counted, out->counted_rows, sizeof *out->counted, counted_order);
    apply_rules(file, out);
    out->wrong_count -=
        out->wrong_count < out->wrongs_suppressed ? out->wrong_count : out->wrongs_suppressed;
}

void acre__run_drop(struct run_collection *collection) {
    free(collection->leaks);
    free(collection->calls);
    free(collection->wrongs);
    free(collection->counted);
}

uint64_t acre__run_found(const struct run_collection *collection, unsigned wants) {
    uint64_t found = collection->wrong_count;
    if (wants & RUN_WANT_LEAKS)
        found += collection->leak_count;
    if (wants & RUN_WANT_ERRORS)
        found += collection->call_count + collection->unsupported_count;
    return found;
}

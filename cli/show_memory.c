/* Live memory in the summary of a trace: see show_memory.h.
 *
 * Each key of a block (enum trace_key) has a table of accounts, one for each of its values: a tag,
 * a pool. An account counts the live bytes of its blocks and their peak. What was live at the peak
 * of all blocks together is known only after the last event, so the trace is read a second time, up
 * to the peak.
 *
 * The timeline has a fixed number of slots. When the trace outgrows them, pairs of slots are merged
 * and a slot covers twice the time. */
#include "show_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "accounts.h"
#include "frames.h"
#include "show_stack.h"

enum {
    MEMORY_SLOTS = 24,   /* a screen; at least half of them are in use at the end */
    MEMORY_LARGEST = 10, /* blocks in a list of the largest ones */
    MEMORY_FIRST_NS = 1000
};

struct memory_largest {
    struct trace_block list[MEMORY_LARGEST]; /* the largest first */
    size_t count, all;                       /* all: blocks, with those not in the list */
};

struct show_memory {
    struct accounts by[TRACE_KEYS];
    uint64_t peak_bytes, peak_ns;
    struct {
        uint64_t step_ns, most[MEMORY_SLOTS];
        size_t at; /* the slot of the last event */
        uint64_t bytes;
    } time;
    struct memory_largest at_peak, at_end;
};

static const struct {
    const char *title, *json, *none;
    enum acre__trace_kind name; /* the event that names its values */
} memory_keys[TRACE_KEYS] = {
    [TRACE_BY_TAG] = {"TAG", "by_tag", "(no tag)", ACRE__TRACE_TAG_NAME},
    [TRACE_BY_POOL] = {"POOL", "by_pool", "(no pool)", ACRE__TRACE_POOL_NAME},
    [TRACE_BY_STACK] = {"ALLOCATED BY", "by_stack", "(no call stack)", ACRE__TRACE_STACK}};

/* Returns the name of a key's value; the caller frees it. */
static char *key_name(const struct trace_reader *reader, enum trace_key key, uint64_t value) {
    const struct trace_name *name =
        value ? trace_name_find(reader, memory_keys[key].name, value) : NULL;
    if (name) {
        return key == TRACE_BY_STACK ? show_stack_name(reader, value)
                                     : show_text(name->text, name->bytes);
    }
    return value ? cli_format("%" PRIu64, value) : cli_format("%s", memory_keys[key].none);
}

/* ---- events ---- */

struct show_memory *memory_begin(void) {
    struct show_memory *memory = cli_alloc(sizeof *memory);
    memory->time.step_ns = MEMORY_FIRST_NS;
    return memory;
}

/* Continues the timeline to a time, with the bytes that were live since the last event. */
static void time_advance(struct show_memory *memory, uint64_t time_ns) {
    while (time_ns / memory->time.step_ns >= MEMORY_SLOTS) {
        uint64_t *most = memory->time.most;
        for (size_t i = 0; i < MEMORY_SLOTS / 2; i++) {
            most[i] = most[2 * i] > most[2 * i + 1] ? most[2 * i] : most[2 * i + 1];
        }
        memset(most + MEMORY_SLOTS / 2, 0, MEMORY_SLOTS / 2 * sizeof *most);
        memory->time.at /= 2;
        memory->time.step_ns *= 2;
    }
    /* Events can be slightly out of order: the timeline does not go back. */
    for (size_t to = (size_t)(time_ns / memory->time.step_ns); memory->time.at < to;) {
        memory->time.most[++memory->time.at] = memory->time.bytes;
    }
}

static void time_add(struct show_memory *memory, uint64_t time_ns, uint64_t bytes) {
    time_advance(memory, time_ns);
    uint64_t *most = &memory->time.most[memory->time.at];
    *most = bytes > *most ? bytes : *most;
    memory->time.bytes = bytes;
}

void memory_event(struct show_memory *memory, const struct trace_reader *reader,
                  const struct trace_record *record) {
    const struct trace_block *block =
        record->kind == ACRE__TRACE_ALLOC || record->kind == ACRE__TRACE_REALLOC
            ? trace_live_find(&reader->live, record->address)
            : NULL;
    for (int key = 0; key < TRACE_KEYS; key++) {
        if (record->freed.id) {
            account_free(account_of(&memory->by[key], record->freed.keys[key]),
                         record->freed.bytes);
        }
        if (block) {
            account_alloc(account_of(&memory->by[key], block->keys[key]), block->bytes,
                          record->kind == ACRE__TRACE_ALLOC);
        }
    }
    if (reader->live.peak_bytes > memory->peak_bytes) {
        memory->peak_bytes = reader->live.peak_bytes;
        memory->peak_ns = record->time_ns;
    }
    time_add(memory, record->time_ns, reader->live.bytes);
}

uint64_t memory_peak_ns(const struct show_memory *memory) {
    return memory->peak_ns;
}

/* ---- the peak and the end ---- */

static void largest_add(struct memory_largest *largest, const struct trace_block *block) {
    size_t i = largest->count;
    largest->all++;
    while (i > 0 &&
           (block->bytes > largest->list[i - 1].bytes ||
            (block->bytes == largest->list[i - 1].bytes && block->id < largest->list[i - 1].id))) {
        i--;
    }
    if (i == MEMORY_LARGEST) {
        return;
    }
    largest->count += largest->count < MEMORY_LARGEST;
    memmove(&largest->list[i + 1], &largest->list[i],
            (largest->count - 1 - i) * sizeof largest->list[0]);
    largest->list[i] = *block;
}

static void largest_find(struct memory_largest *largest, const struct trace_live *live) {
    for (size_t i = 0; i < live->room; i++) {
        if (live->table[i].address) {
            largest_add(largest, &live->table[i]);
        }
    }
}

/* Reads the trace up to its peak, and counts what was live there. */
static void memory_look_back(struct show_memory *memory, const struct trace_reader *reader) {
    struct trace_reader again = {0};
    struct trace_record record;
    int is_open = trace_open(&again, reader->bytes, reader->count);
    while (is_open && again.live.peak_bytes < memory->peak_bytes && trace_next(&again, &record)) {
    }
    for (size_t i = 0; i < again.live.room; i++) {
        const struct trace_block *block = &again.live.table[i];
        for (int key = 0; block->address && key < TRACE_KEYS; key++) {
            struct account *account = account_of(&memory->by[key], block->keys[key]);
            account->at_peak_bytes += block->bytes;
            account->at_peak_blocks++;
        }
    }
    largest_find(&memory->at_peak, &again.live);
    largest_find(&memory->at_end, &reader->live);
    trace_close(&again);
}

/* ---- text ---- */

static void print_timeline(const struct show_memory *memory) {
    char text[CLI_NUMBER_BYTES], bytes[CLI_NUMBER_BYTES];
    size_t width = cli_width(stdout) ? cli_width(stdout) : 80;
    size_t room = width > 50 ? width - 30 : 20;
    bool has_peak = false;
    printf("Live memory over time: each line has the peak of %s\n",
           cli_duration(memory->time.step_ns, text));
    for (size_t i = 0; i <= memory->time.at; i++) {
        uint64_t most = memory->time.most[i];
        size_t bar = (size_t)((double)most / (double)memory->peak_bytes * (double)room + 0.5);
        printf("%12s  %10s%s", cli_duration(i * memory->time.step_ns, text), cli_bytes(most, bytes),
               bar ? "  " : "");
        for (size_t k = 0; k < bar; k++) {
            putchar('#');
        }
        bool is_peak = most == memory->peak_bytes && !has_peak; /* later lines may be as high */
        printf("%s\n", is_peak ? " peak" : "");
        has_peak |= is_peak;
    }
    putchar('\n');
}

static void print_accounts(const struct show_memory *memory, const struct trace_reader *reader,
                           enum trace_key key) {
    const char *const titles[] = {
        memory_keys[key].title, ">PEAK", ">AT PEAK", ">BLOCKS", ">AT END", ">BLOCKS", ">ALLOCS"};
    struct account *list = accounts_sorted(&memory->by[key]);
    struct cli_table table;
    char text[CLI_NUMBER_BYTES];
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < memory->by[key].count; i++) {
        char *name = key_name(reader, key, list[i].value);
        cli_table_cell(&table, CLI_PLAIN, "%s", name);
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(list[i].peak_bytes, text));
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(list[i].at_peak_bytes, text));
        cli_table_cell(&table, CLI_PLAIN, "%" PRIu64, list[i].at_peak_blocks);
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(list[i].bytes, text));
        cli_table_cell(&table, CLI_PLAIN, "%" PRIu64, list[i].blocks);
        cli_table_cell(&table, CLI_PLAIN, "%" PRIu64, list[i].allocations);
        free(name);
    }
    cli_table_end(&table);
    putchar('\n');
    free(list);
}

static void print_largest(const struct memory_largest *largest, const struct trace_reader *reader,
                          const char *when) {
    static const char *const titles[] = {">BLOCK", ">BYTES", "POOL", "TAG", ">ALLOCATED AFTER"};
    struct cli_table table;
    char text[CLI_NUMBER_BYTES];
    if (largest->count == 0) {
        return;
    }
    printf("Largest blocks %s (%zu of %zu)\n", when, largest->count, largest->all);
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < largest->count; i++) {
        const struct trace_block *block = &largest->list[i];
        char *pool = key_name(reader, TRACE_BY_POOL, block->keys[TRACE_BY_POOL]);
        char *tag = key_name(reader, TRACE_BY_TAG, block->keys[TRACE_BY_TAG]);
        cli_table_cell(&table, CLI_PLAIN, "%" PRIu64, block->id);
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_bytes(block->bytes, text));
        cli_table_cell(&table, CLI_PLAIN, "%s", pool);
        cli_table_cell(&table, CLI_PLAIN, "%s", tag);
        cli_table_cell(&table, CLI_PLAIN, "%s", cli_duration(block->time_ns, text));
        free(pool);
        free(tag);
    }
    cli_table_end(&table);
    putchar('\n');
}

void memory_print(struct show_memory *memory, const struct trace_reader *reader) {
    if (memory->peak_bytes == 0) {
        return;
    }
    memory_look_back(memory, reader);
    print_timeline(memory);
    bool has_stacks = reader->header.version == ACRE__TRACE_VERSION_STACKS;
    for (int key = 0; key < TRACE_KEYS; key++) {
        if (key != TRACE_BY_STACK || has_stacks) {
            print_accounts(memory, reader, (enum trace_key)key);
        }
    }
    frames_close();
    print_largest(&memory->at_peak, reader, "at the peak");
    print_largest(&memory->at_end, reader, "at the end");
}

/* ---- JSON ---- */

static json_t *json_frames(const struct trace_reader *reader, uint64_t stack) {
    char *frames[SHOW_STACK_FRAMES];
    size_t count = show_stack_frames(reader, stack, frames);
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        cli_json_append(array, cli_json_text(frames[i]));
        free(frames[i]);
    }
    return array;
}

static json_t *json_accounts(const struct show_memory *memory, const struct trace_reader *reader,
                             enum trace_key key) {
    struct account *list = accounts_sorted(&memory->by[key]);
    json_t *array = json_array();
    for (size_t i = 0; i < memory->by[key].count; i++) {
        json_t *item = json_object();
        char *name = key_name(reader, key, list[i].value);
        cli_json_set(item, "id", cli_json_number(list[i].value));
        cli_json_set(item, "name", list[i].value ? cli_json_text(name) : json_null());
        if (key == TRACE_BY_STACK) {
            cli_json_set(item, "frames", json_frames(reader, list[i].value));
        }
        cli_json_set(item, "peak_bytes", cli_json_number(list[i].peak_bytes));
        cli_json_set(item, "at_peak_bytes", cli_json_number(list[i].at_peak_bytes));
        cli_json_set(item, "at_peak_blocks", cli_json_number(list[i].at_peak_blocks));
        cli_json_set(item, "live_bytes", cli_json_number(list[i].bytes));
        cli_json_set(item, "live_blocks", cli_json_number(list[i].blocks));
        cli_json_set(item, "allocations", cli_json_number(list[i].allocations));
        cli_json_append(array, item);
        free(name);
    }
    free(list);
    return array;
}

static json_t *json_largest(const struct memory_largest *largest) {
    json_t *array = json_array();
    for (size_t i = 0; i < largest->count; i++) {
        const struct trace_block *block = &largest->list[i];
        json_t *item = json_object();
        cli_json_set(item, "block", cli_json_number(block->id));
        cli_json_set(item, "bytes", cli_json_number(block->bytes));
        cli_json_set(item, "pool", cli_json_number(block->keys[TRACE_BY_POOL]));
        cli_json_set(item, "tag", cli_json_number(block->keys[TRACE_BY_TAG]));
        cli_json_set(item, "stack", cli_json_number(block->keys[TRACE_BY_STACK]));
        cli_json_set(item, "time_ns", cli_json_number(block->time_ns));
        cli_json_append(array, item);
    }
    return array;
}

void memory_json(struct show_memory *memory, const struct trace_reader *reader, json_t *root) {
    json_t *time = json_object(), *most = json_array();
    memory_look_back(memory, reader);
    for (size_t i = 0; i <= memory->time.at; i++) {
        cli_json_append(most, cli_json_number(memory->time.most[i]));
    }
    cli_json_set(time, "step_ns", cli_json_number(memory->time.step_ns));
    cli_json_set(time, "peak_bytes", most);
    cli_json_set(root, "peak_ns", cli_json_number(memory->peak_ns));
    cli_json_set(root, "timeline", time);
    for (int key = 0; key < TRACE_KEYS; key++) {
        cli_json_set(root, memory_keys[key].json,
                     json_accounts(memory, reader, (enum trace_key)key));
    }
    frames_close();
    cli_json_set(root, "largest_at_peak", json_largest(&memory->at_peak));
    cli_json_set(root, "largest_at_end", json_largest(&memory->at_end));
}

void memory_end(struct show_memory *memory) {
    for (int key = 0; key < TRACE_KEYS; key++) {
        accounts_end(&memory->by[key]);
    }
    free(memory);
}

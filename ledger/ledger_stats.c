/* Statistics of a program under `acre run`; see ledger_stats.h. Locks: the ledger's is held. */
#include "ledger_stats.h"

#include <stddef.h>

#include "acre.h"
#include "ledger.h"
#include "watch/stats_file.h"

static struct {
    int is_begun, is_on;
    struct acre__stats_row *rows[RUN_KIND_COUNT];
} ledger_stats;

static const struct {
    const char *name;
    int is_memory;
} ledger_stats_kinds[RUN_KIND_COUNT] = {
#define STATS_KIND(kind, title, is_memory) {title, is_memory},
    RUN_KINDS(STATS_KIND)
#undef STATS_KIND
};

/* Of a stand-in under the shim only one of the two keeps statistics: the one that reports. */
static void ledger_stats_begin(void) {
    int is_shim_wanted = acre__ledger_word("watch") != NULL;
    ledger_stats.is_begun = 1;
    if (is_shim_wanted != acre__ledger_watches || acre__ledger_word("serve"))
        return;
    ledger_stats.is_on = acre__stats_begin() == ACRE_OK && acre__stats_is_on();
}

void acre__ledger_stats_store(enum run_kind kind, const struct run_count *count) {
    if (!ledger_stats.is_begun)
        ledger_stats_begin();
    if (!ledger_stats.is_on || !ledger_stats_kinds[kind].is_memory)
        return;
    struct acre__stats_row **row = &ledger_stats.rows[kind];
    if (!*row) {
        *row = acre__stats_row_take(ACRE__STATS_MEMORY, kind, ledger_stats_kinds[kind].name);
        acre__stats_row_card(*row, acre__ledger_word("soft") ? "soft" : "");
    }
    const struct {
        uint64_t live_bytes, peak_bytes, allocs, alloc_bytes, frees, refused;
    } now = {count->bytes,     count->most_bytes, count->made,
             count->all_bytes, count->freed,      count->refused};
#define STATS_VALUE(name, meaning) now.name,
    const uint64_t values[] = {ACRE__STATS_MEMORY_LIST(STATS_VALUE)};
#undef STATS_VALUE
    acre__stats_row_store(*row, values, sizeof values / sizeof *values);
}

void acre__ledger_stats_forget(void) {
    ledger_stats.is_on = 0;
}

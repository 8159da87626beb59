/* The ledger's reports at exit, on stderr; see ledger.h. */
#include "ledger.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *acre__ledger_bytes(uint64_t bytes, char *text, size_t text_bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    /* One decimal, unless it is 0. */
    uint64_t tenths = (uint64_t)(value * 10 + 0.5);
    if (tenths % 10)
        snprintf(text, text_bytes, "%" PRIu64 ".%" PRIu64 " %s", tenths / 10, tenths % 10,
                 units[unit]);
    else
        snprintf(text, text_bytes, "%" PRIu64 " %s", tenths / 10,
                 bytes == 1 ? "byte" : units[unit]);
    return text;
}

const char *acre__ledger_place(const void *address, char *text, size_t text_bytes) {
    /* The call is before its return address, which may belong to another line. */
    uintptr_t at = (uintptr_t)address - (address != NULL);
    Dl_info info;
    struct link_map *object = NULL;
    if (!address || !dladdr1((void *)(uintptr_t)at, &info, (void **)&object, RTLD_DL_LINKMAP) ||
        !object) {
        snprintf(text, text_bytes, "0x%" PRIxPTR, at);
        return text;
    }
    const char *file = info.dli_fname ? info.dli_fname : "?";
    const char *slash = strrchr(file, '/');
    snprintf(text, text_bytes, "%s+0x%" PRIxPTR, slash ? slash + 1 : file,
             at - (uintptr_t)object->l_addr);
    return text;
}

/* ---- statistics ---- */

void acre__ledger_say_stats(uint64_t copied_bytes) {
    enum { TEXT = 32 };
    char all[TEXT], most[TEXT], held[TEXT], copied[TEXT];
    struct ledger_count sum = acre__ledger_count(LEDGER_KIND_COUNT);
    fprintf(stderr,
            "acre: allocations: %" PRIu64 ", %s in all; freed: %" PRIu64 "; refused: %" PRIu64
            "; at most %s at a time; copied: %s\n",
            sum.made, acre__ledger_bytes(sum.all_bytes, all, TEXT), sum.freed, sum.refused,
            acre__ledger_bytes(sum.most_bytes, most, TEXT),
            acre__ledger_bytes(copied_bytes, copied, TEXT));
    const char *title =
        "  memory               made     freed   refused      at most         left\n";
    for (unsigned i = 0; i < LEDGER_KIND_COUNT; i++) {
        struct ledger_count count = acre__ledger_count(i);
        if (!count.made && !count.refused)
            continue;
        fputs(title, stderr);
        title = "";
        fprintf(stderr, "  %-15s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %12s %12s\n",
                acre__ledger_title(i), count.made, count.freed, count.refused,
                acre__ledger_bytes(count.most_bytes, most, TEXT),
                acre__ledger_bytes(count.bytes, held, TEXT));
    }
}

/* ---- leaks ---- */

/* Leaks of one call site in the program. */
struct leak {
    struct ledger_entry first; /* the oldest of them */
    uint64_t count, bytes;
};

struct leaks {
    struct leak *rows;
    size_t row_count, row_room;
    uint64_t count, unlisted;
};

static struct leak *leaks_row(struct leaks *leaks, const struct ledger_entry *entry) {
    for (size_t i = 0; i < leaks->row_count; i++) {
        struct leak *row = &leaks->rows[i];
        if (row->first.kind == entry->kind && row->first.caller.address == entry->caller.address &&
            row->first.is_lost == entry->is_lost)
            return row;
    }
    if (leaks->row_count == leaks->row_room) {
        size_t room = leaks->row_room ? leaks->row_room * 2 : 64;
        struct leak *rows = realloc(leaks->rows, room * sizeof *rows);
        if (!rows)
            return NULL;
        leaks->rows = rows;
        leaks->row_room = room;
    }
    struct leak *row = &leaks->rows[leaks->row_count++];
    *row = (struct leak){.first = *entry};
    return row;
}

static void leaks_visit(const struct ledger_entry *entry, void *user) {
    struct leaks *leaks = user;
    leaks->count++;
    struct leak *row = leaks_row(leaks, entry);
    if (!row) {
        leaks->unlisted++;
        return;
    }
    row->count++;
    row->bytes += entry->bytes;
    if (entry->number < row->first.number)
        row->first = *entry;
}

static int leak_order(const void *a, const void *b) {
    const struct leak *one = a, *other = b;
    return (one->first.number > other->first.number) - (one->first.number < other->first.number);
}

uint64_t acre__ledger_say_leaks(void) {
    enum { TEXT = 32, PLACE = 256 };
    char text[TEXT], place[PLACE];
    struct leaks leaks = {0};
    acre__ledger_each(leaks_visit, &leaks);
    if (!leaks.count) {
        fputs("acre: everything was freed\n", stderr);
        return 0;
    }
    fprintf(stderr, "acre: not freed: %" PRIu64 "\n", leaks.count);
    fprintf(stderr, "  %12s %7s  %-15s %-24s %-18s %s\n", "size", "count", "memory", "call",
            "first", "called at");
    if (leaks.row_count)
        qsort(leaks.rows, leaks.row_count, sizeof leaks.rows[0], leak_order);
    for (size_t i = 0; i < leaks.row_count; i++) {
        const struct leak *row = &leaks.rows[i];
        fprintf(stderr, "  %12s %7" PRIu64 "  %-15s %-24s 0x%-16" PRIx64 " %s%s\n",
                acre__ledger_bytes(row->bytes, text, TEXT), row->count,
                acre__ledger_title(row->first.kind),
                row->first.caller.call ? row->first.caller.call : "?", row->first.node.key,
                acre__ledger_place(row->first.caller.address, place, PLACE),
                row->first.is_lost ? " (until its context ended)" : "");
    }
    if (leaks.unlisted)
        fprintf(stderr, "  and %" PRIu64 " more: out of memory to list them\n", leaks.unlisted);
    free(leaks.rows);
    return leaks.count;
}

/* The report of `acre run` as text; see run_report.h. */
#include <inttypes.h>
#include <string.h>

#include "run_report.h"

static const char *const text_titles[RUN_KIND_COUNT] = {
#define RUN_TITLE(kind, title, is_memory) title,
    RUN_KINDS(RUN_TITLE)
#undef RUN_TITLE
};

const char *acre__run_bytes(uint64_t bytes, char *text, size_t text_bytes) {
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

enum { TEXT_BYTES = 32 };

/* ---- statistics ---- */

/* The shim does not see copies. */
static void print_stats(FILE *out, const struct run_collection *run, unsigned wants) {
    char all[TEXT_BYTES], most[TEXT_BYTES], held[TEXT_BYTES], copied[TEXT_BYTES];
    const struct run_count *sum = &run->counts[RUN_KIND_COUNT];
    fprintf(out,
            "acre: allocations: %" PRIu64 ", %s in all; freed: %" PRIu64 "; refused: %" PRIu64
            "; at most %s at a time%s%s\n",
            sum->made, acre__run_bytes(sum->all_bytes, all, TEXT_BYTES), sum->freed, sum->refused,
            acre__run_bytes(sum->most_bytes, most, TEXT_BYTES),
            wants & RUN_WANT_WATCH ? "" : "; copied: ",
            wants & RUN_WANT_WATCH ? "" : acre__run_bytes(run->copied_bytes, copied, TEXT_BYTES));
    const char *title =
        "  memory               made     freed   refused      at most         left\n";
    for (unsigned i = 0; i < RUN_KIND_COUNT; i++) {
        const struct run_count *count = &run->counts[i];
        if (!count->made && !count->refused)
            continue;
        fputs(title, out);
        title = "";
        fprintf(out, "  %-15s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %12s %12s\n", text_titles[i],
                count->made, count->freed, count->refused,
                acre__run_bytes(count->most_bytes, most, TEXT_BYTES),
                acre__run_bytes(count->bytes, held, TEXT_BYTES));
    }
}

/* ---- findings ---- */

/* Ends a headline with the number of suppressed findings. */
static void print_suppressed(FILE *out, uint64_t count) {
    if (count)
        fprintf(out, " (suppressed: %" PRIu64 ")", count);
    fputc('\n', out);
}

static const char *leak_end(const struct run_leak *leak) {
    if (leak->kind == RUN_OPENED)
        return " (still open)";
    return leak->is_lost ? " (until its context ended)" : "";
}

static void print_leaks(FILE *out, const struct run_collection *run) {
    char text[TEXT_BYTES];
    if (!run->leak_rows && !run->is_incomplete) {
        fputs("acre: everything was freed\n", out);
        return;
    }
    fprintf(out, "acre: not freed: %" PRIu64, run->leak_count);
    print_suppressed(out, run->leaks_suppressed);
    if (run->leak_count)
        fprintf(out, "  %12s %7s  %-15s %-24s %-18s %s\n", "size", "count", "memory", "call",
                "first", "called at");
    for (size_t i = 0; i < run->leak_rows; i++) {
        const struct run_leak *leak = &run->leaks[i];
        char first[TEXT_BYTES] = "?";
        if (leak->is_suppressed)
            continue;
        if (leak->first)
            snprintf(first, sizeof first, "0x%" PRIx64, leak->first);
        fprintf(out, "  %12s %7" PRIu64 "  %-15s %-24s %-18s %s%s%s%s\n",
                acre__run_bytes(leak->bytes, text, TEXT_BYTES), leak->count,
                text_titles[leak->kind], leak->site.call, first, leak->site.place,
                leak->site.from[0] ? RUN_FROM : "", leak->site.from, leak_end(leak));
    }
}

static void print_call_rows(FILE *out, const struct run_collection *run, int is_unsupported) {
    fprintf(out, "  %7s  %-24s %-32s %s\n", "count", "call", "error", "called at");
    for (size_t i = 0; i < run->call_rows; i++) {
        const struct run_call *call = &run->calls[i];
        if (call->is_suppressed || call->is_unsupported != is_unsupported)
            continue;
        fprintf(out, "  %7" PRIu64 "  %-24s %-32s %s%s%s\n", call->count, call->site.call,
                call->error, call->site.place, call->site.from[0] ? RUN_FROM : "", call->site.from);
        if (call->why[0])
            fprintf(out, "           %s\n", call->why);
    }
}

static void print_calls(FILE *out, const struct run_collection *run, unsigned wants) {
    int is_listed = (wants & RUN_WANT_ERRORS) != 0;
    if (is_listed && !run->call_rows)
        fputs("acre: no call was refused\n", out);
    if (run->call_count || (is_listed && run->calls_suppressed)) {
        fprintf(out, "acre: refused calls: %" PRIu64 "%s", run->call_count,
                is_listed ? "" : "; --errors lists them");
        print_suppressed(out, run->calls_suppressed);
        if (is_listed && run->call_count)
            print_call_rows(out, run, 0);
    }
    if (run->unsupported_count || (is_listed && run->unsupported_suppressed)) {
        fprintf(out, "acre: calls that the soft device does not support: %" PRIu64,
                run->unsupported_count);
        print_suppressed(out, run->unsupported_suppressed);
        if (run->unsupported_count)
            print_call_rows(out, run, 1);
    }
}

static void print_wrongs(FILE *out, const struct run_collection *run, unsigned wants) {
    uint64_t listed = 0;
    if (!run->wrong_count && !run->wrongs_suppressed) {
        if (wants & RUN_WANT_CHECK)
            fputs("acre: no races between streams\n", out);
        return;
    }
    fprintf(out, "acre: wrong uses of memory: %" PRIu64, run->wrong_count);
    print_suppressed(out, run->wrongs_suppressed);
    for (size_t i = 0; i < run->wrong_rows; i++) {
        if (!run->wrongs[i].is_suppressed) {
            fprintf(out, "  %s\n", run->wrongs[i].text);
            listed++;
        }
    }
    if (listed < run->wrong_count)
        fprintf(out, "  and %" PRIu64 " more\n", run->wrong_count - listed);
}

/* Says what the report does not contain. */
static void print_counted(FILE *out, const struct run_collection *run) {
    for (size_t i = 0; i < run->counted_rows; i++)
        fprintf(out, "%s %s %" PRIu64,
                i ? "," : "acre: calls that acre does not record:", run->counted[i].call,
                run->counted[i].count);
    if (run->counted_rows)
        fputc('\n', out);
}

void acre__run_print(FILE *out, const struct run_collection *run, unsigned wants) {
    print_wrongs(out, run, wants);
    if (wants & RUN_WANT_STATS)
        print_stats(out, run, wants);
    print_calls(out, run, wants);
    if (wants & RUN_WANT_LEAKS)
        print_leaks(out, run);
    if (wants & (RUN_WANT_STATS | RUN_WANT_LEAKS))
        print_counted(out, run);
    if (run->is_incomplete)
        fputs("acre: the report is incomplete: there was no room for all records\n", out);
}

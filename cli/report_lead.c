/* The first sentences of a report: what happened; see report.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "report.h"
#include "show_stack.h"

enum { LEAD_NAME_BYTES = 80 };

/* Returns the name of a call stack. Those of PyTorch begin in its own C++ code: the first frame of
 * Python tells more. */
static char *lead_stack(const struct report_source *source, uint64_t stack) {
    char *frames[SHOW_STACK_FRAMES];
    if (source->is_acre) {
        return show_stack_name(&source->reader, stack);
    }
    size_t count = source_frames(source, stack, frames, SHOW_STACK_FRAMES), best = 0;
    for (size_t i = count; i-- > 0;) {
        best = strstr(frames[i], ".py:") ? i : best;
    }
    char *name = NULL;
    if (count) { /* without the folders of the file */
        char *file = strstr(frames[best], " at "), *last = file ? file + strlen(" at ") : NULL;
        for (char *c = last; c && *c; c++) {
            last = *c == '/' || *c == '\\' ? c + 1 : last;
        }
        name = last ? cli_format("%.*s at %s", (int)(file - frames[best]), frames[best], last)
                    : cli_format("%s", frames[best]);
    }
    for (size_t i = 0; i < count; i++) {
        free(frames[i]);
    }
    return name;
}

/* Returns who holds a part of the peak: a tag, or the function that allocated it; NULL if neither
 * is known. The caller frees it. */
static char *lead_holder(const struct report *report, uint64_t *bytes) {
    static const int keys[] = {REPORT_BY_TAG, REPORT_BY_STACK};
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        const struct accounts *by = &report->by[keys[k]];
        const struct account *most = NULL;
        for (size_t i = 0; i < by->room; i++) {
            const struct account *account = &by->table[i];
            if (account->is_used && account->value &&
                (!most || account->at_peak_bytes > most->at_peak_bytes ||
                 (account->at_peak_bytes == most->at_peak_bytes && account->value < most->value))) {
                most = account;
            }
        }
        if (most && most->at_peak_bytes) {
            *bytes = most->at_peak_bytes;
            return keys[k] == REPORT_BY_STACK
                       ? lead_stack(report->source, most->value)
                       : source_name(report->source, TRACE_BY_TAG, most->value);
        }
    }
    return NULL;
}

/* Shortens a name to a number of bytes, between two characters of UTF-8. */
static void lead_shorten(char *name) {
    size_t bytes = strlen(name);
    if (bytes <= LEAD_NAME_BYTES) {
        return;
    }
    bytes = LEAD_NAME_BYTES - 3;
    while (bytes && ((unsigned char)name[bytes] & 0xc0) == 0x80) {
        bytes--;
    }
    memcpy(name + bytes, "...", 4);
}

/* Says who holds the most, if that is a tenth of the peak at least: less explains nothing. */
static void lead_who(const struct report *report, FILE *out) {
    uint64_t held = 0;
    char *holder = report->peak_bytes ? lead_holder(report, &held) : NULL;
    if (holder && held >= report->peak_bytes / 10) {
        lead_shorten(holder);
        fprintf(out, "; %.0f %% of it held by %s",
                100.0 * (double)held / (double)report->peak_bytes, holder);
    }
    free(holder);
}

static void lead_peak(const struct report *report, FILE *out) {
    char bytes[CLI_NUMBER_BYTES], time[CLI_NUMBER_BYTES];
    if (report->peak_bytes == 0) {
        fprintf(out, "No allocation was recorded");
        return;
    }
    bool has_clock = strcmp(report->source->format, "lifetimes") != 0;
    if (has_clock) {
        cli_duration(report->peak_ns, time);
    } else {
        snprintf(time, sizeof time, "step %" PRIu64, report->peak_ns);
    }
    fprintf(out, "Peak %s at %s", cli_bytes(report->peak_bytes, bytes), time);
    lead_who(report, out);
}

static void lead_failures(const struct report *report, FILE *out) {
    char bytes[CLI_NUMBER_BYTES];
    uint64_t frees = report->kinds[ACRE__TRACE_FREE_REFUSED];
    uint64_t allocs = report->failures_all - frees;
    if (report->failures_all == 0) {
        fprintf(out, "; nothing failed.");
        return;
    }
    if (allocs) {
        const struct report_failure *first = report->failures;
        while (first < report->failures + report->failure_count - 1 && first->is_free) {
            first++;
        }
        fprintf(out,
                allocs > 1 ? "; %" PRIu64 " allocations failed, the first of %s"
                           : "; %" PRIu64 " allocation of %s failed",
                allocs, cli_bytes(first->bytes, bytes));
    }
    if (frees) {
        fprintf(out, "%s %" PRIu64 " free%s failed", allocs ? " and" : ";", frees,
                frees > 1 ? "s" : "");
    }
    fprintf(out, ".");
}

/* A snapshot is one moment: the peak is what is live. */
static void lead_snapshot(const struct report *report, FILE *out) {
    char bytes[CLI_NUMBER_BYTES];
    fprintf(out, "%s live in %" PRIu64 " block%s", cli_bytes(report->live_bytes, bytes),
            report->live_blocks, report->live_blocks == 1 ? "" : "s");
    lead_who(report, out);
    fprintf(out, "; %s reserved.", cli_bytes(report->reserved_peak, bytes));
}

static void lead_trace(const struct report *report, FILE *out) {
    char bytes[CLI_NUMBER_BYTES];
    lead_peak(report, out);
    if (report->reserved_peak) {
        fprintf(out, "; %s reserved", cli_bytes(report->reserved_peak, bytes));
    }
    lead_failures(report, out);
    if (report->live_blocks) {
        fprintf(out, " At the end, %s in %" PRIu64 " block%s %s still live.",
                cli_bytes(report->live_bytes, bytes), report->live_blocks,
                report->live_blocks > 1 ? "s" : "", report->live_blocks > 1 ? "are" : "is");
    }
}

char *report_lead(const struct report *report) {
    char *text = NULL;
    size_t count = 0;
    FILE *out = open_memstream(&text, &count);
    if (!out) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    if (strcmp(report->source->format, "snapshot") == 0) {
        lead_snapshot(report, out);
    } else {
        lead_trace(report, out);
    }
    if (fclose(out) != 0) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    return text;
}

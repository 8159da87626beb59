/* One input for the analysis of `acre report`: the entry point that libFuzzer, the stored corpus
 * and its mutations share.
 *
 * Whatever the bytes are, the analysis must not touch memory that is not its own, must keep its
 * limits, and its parts must agree: every level of detail has the peak, the accounts sum up to it,
 * and the last sample is what is live at the end. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "fuzz_quiet.h"
#include "report.h"

static void check_accounts(const struct report *report) {
    for (int key = 0; key <= REPORT_KEYS; key++) {
        const struct accounts *by = key == REPORT_KEYS ? &report->holders : &report->by[key];
        uint64_t at_peak = 0, live = 0, blocks = 0;
        for (size_t i = 0; i < by->room; i++) {
            at_peak += by->table[i].at_peak_bytes;
            live += by->table[i].bytes;
            blocks += by->table[i].blocks;
        }
        FUZZ_CHECK(at_peak == report->peak_bytes);
        FUZZ_CHECK(live == report->live_bytes && blocks == report->live_blocks);
    }
}

static void check_levels(const struct report *report) {
    FUZZ_CHECK(report->level_count >= 1 && report->level_count <= REPORT_LEVELS);
    for (size_t k = 0; k < report->level_count; k++) {
        const struct report_level *level = &report->levels[k];
        uint64_t most = 0;
        FUZZ_CHECK(level->count <= 2 * REPORT_BUCKETS + 1);
        for (size_t i = 0; i < level->count; i++) {
            const struct report_sample *sample = &level->list[i];
            most = sample->requested > most ? sample->requested : most;
            FUZZ_CHECK(i == 0 || (sample->event > level->list[i - 1].event &&
                                  sample->time_ns >= level->list[i - 1].time_ns));
            FUZZ_CHECK(sample->reserved <= report->reserved_peak);
        }
        FUZZ_CHECK(most == report->peak_bytes);
        FUZZ_CHECK(!level->count || level->list[level->count - 1].requested == report->live_bytes);
    }
}

static void check_spans(const struct report_spans *spans, uint64_t steps) {
    FUZZ_CHECK(spans->count <= spans->most && spans->count <= spans->all);
    for (size_t i = 0; i < spans->count; i++) {
        FUZZ_CHECK(spans->list[i].begin <= spans->list[i].end && spans->list[i].end <= steps);
        FUZZ_CHECK(i == 0 || spans->list[i - 1].begin <= spans->list[i].begin);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count) {
    static struct report report;
    struct report_source source = {.path = "input", .name = "input"};
    fuzz_begin();
    source.bytes.at = cli_alloc(count + 1);
    memcpy(source.bytes.at, bytes, count);
    source.bytes.count = count;
    int code = source_begin(&source);
    if (code == CLI_CANNOT) {
        FUZZ_CHECK(fuzz_said() >= 1);
        source_close(&source);
        return 0;
    }
    FUZZ_CHECK((code == CLI_FINDING) == (source.damage_count > 0));
    report_make(&report, &source);
    check_accounts(&report);
    check_levels(&report);
    check_spans(&report.blocks, report.steps);
    check_spans(&report.mappings, report.steps);
    FUZZ_CHECK(report.plan.skipped || report.plan.bytes >= report.plan.lower_bound);
    report_end(&report);
    source_close(&source);
    return 0;
}

/* One input for the reader of statistics files (`acre stats`): the entry point for libFuzzer, the
 * stored corpus and its mutations.
 *
 * A refusal prints one line. Otherwise every name that the tool prints is terminated and has no
 * control characters, and every row is of a kind that the header describes. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli.h"
#include "fuzz_quiet.h"
#include "stats_read.h"

static void fuzz_check_text(const char *text, size_t room) {
    FUZZ_CHECK(memchr(text, '\0', room) != NULL);
    for (; *text; text++) {
        FUZZ_CHECK(*text >= ' ' && *text <= '~');
    }
}

static void fuzz_check_view(const struct stats_view *view) {
    const struct acre__stats_header *header = &view->header;
    struct acre__stats_row row;
    fuzz_check_text(header->library, sizeof header->library);
    fuzz_check_text(header->program, sizeof header->program);
    for (unsigned k = 0; k < ACRE__STATS_KINDS; k++) {
        const struct acre__stats_names *names = &header->kinds[k];
        FUZZ_CHECK(names->count <= ACRE__STATS_COUNTERS);
        fuzz_check_text(names->name, sizeof names->name);
        for (uint64_t i = 0; i < names->count; i++) {
            fuzz_check_text(names->counters[i], sizeof names->counters[i]);
        }
    }
    FUZZ_CHECK(header->row_count <= ACRE__STATS_ROWS);
    (void)stats_is_running(view);
    (void)stats_refreshed_ns(view);
    for (size_t i = 0; i < header->row_count; i++) {
        if (stats_row(view, i, &row)) {
            FUZZ_CHECK(row.kind > ACRE__STATS_NONE && row.kind < ACRE__STATS_KINDS);
            FUZZ_CHECK(header->kinds[row.kind].count > 0);
            fuzz_check_text(row.name, sizeof row.name);
            fuzz_check_text(row.card, sizeof row.card);
        }
    }
    FUZZ_CHECK(!stats_row(view, header->row_count, &row));
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t count) {
    char path[64];
    struct stats_view view;
    int fd = memfd_create("input", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fuzz_begin();
    int code = stats_open(path, &view);
    FUZZ_CHECK(code == CLI_OK || code == CLI_CANNOT);
    FUZZ_CHECK(fuzz_said() == (code == CLI_OK ? 0 : 1));
    if (code == CLI_OK) {
        fuzz_check_view(&view);
        stats_close(&view);
    }
    close(fd);
    return 0;
}

/* The report that `acre demo` ends with: a trace of its training steps, and the page that
 * `acre report` makes of it. */
#include <stdlib.h>
#include <string.h>

#include "demo.h"
#include "report_write.h"
#include "write_file.h"

/* A trace that the user has started is left alone, and then there is no report. */
bool demo_report_begin(const char *folder) {
    if (write_is_stdout(folder) || !demo_page_folder(folder)) {
        return false;
    }
    char *trace = cli_format("%s/demo.trace", folder);
    acre_status status = acre_trace_start(trace, NULL);
    if (status != ACRE_OK) {
        cli_say("no report of the demo: %s", cli_detail());
    }
    free(trace);
    return status == ACRE_OK;
}

char *demo_report_end(const char *folder, bool force) {
    static struct report report;
    struct report_source source;
    char *trace = cli_format("%s/demo.trace", folder), *page = cli_format("%s/report.html", folder);
    struct write_file file = {.path = page, .kind = WRITE_REPORT, .force = force};
    int code = acre_trace_stop() == ACRE_OK && report_can_write() ? write_check(&file) : CLI_CANNOT;
    if (code == CLI_OK) {
        code = source_open(&source, trace);
        if (code == CLI_OK) {
            report_make(&report, &source);
            report_write(write_begin(&file), &report, NULL);
            code = write_end(&file);
            report_end(&report);
        }
        source_close(&source);
    }
    free(trace);
    if (code != CLI_OK) {
        free(page);
        return NULL;
    }
    return page;
}

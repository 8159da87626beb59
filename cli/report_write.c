/* Writes the page of a report: the page as it was built, with title, first sentence and data at its
 * markers. Nothing of the trace can end the element that it is in: names are escaped, and data has
 * no "<". */
#include "report_write.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "report_page.h"
#include "show_text.h"

bool report_can_write(void) {
    if (report_page_bytes) {
        return true;
    }
    cli_say("cannot write a page: acre was built without uPlot, which draws its charts; run "
            "scripts/deps page in the source folder, then make; --json works without it");
    return false;
}

/* Writes a text as HTML, without characters that a reader cannot see. */
static void write_text(FILE *out, const char *text) {
    char *clean = show_text(text, strlen(text));
    for (const char *c = clean; *c; c++) {
        switch (*c) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc(*c, out);
        }
    }
    free(clean);
}

/* Receives JSON. "<" occurs only in its strings, where \u003c means the same. */
static int write_json_part(const char *part, size_t count, void *arg) {
    FILE *out = arg;
    while (count) {
        const char *less = memchr(part, '<', count);
        size_t plain = less ? (size_t)(less - part) : count;
        fwrite(part, 1, plain, out);
        if (less) {
            fputs("\\u003c", out);
            plain++;
        }
        part += plain;
        count -= plain;
    }
    return 0;
}

static void write_data(FILE *out, const struct report *report, const struct report *against) {
    json_t *root = json_object();
    cli_json_set(root, "report", report_json(report, true));
    if (against) {
        cli_json_set(root, "against", report_json(against, true));
    }
    if (json_dump_callback(root, write_json_part, out, JSON_COMPACT | JSON_ENSURE_ASCII)) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    json_decref(root);
}

/* Writes the page up to a marker. Returns what follows the marker. */
static const char *write_until(FILE *out, const char *at, const char *marker) {
    const char *end = (const char *)report_page + report_page_bytes;
    const char *found = memmem(at, (size_t)(end - at), marker, strlen(marker));
    if (!found) { /* a page that was built wrongly */
        cli_say("the page of this tool lacks %s: this is a bug in acre", marker);
        exit(CLI_CANNOT);
    }
    fwrite(at, 1, (size_t)(found - at), out);
    return found + strlen(marker);
}

void report_write(FILE *out, const struct report *report, const struct report *against) {
    const char *at = (const char *)report_page, *end = at + report_page_bytes;
    char *lead = report_lead(report);
    const char *slash = strrchr(report->source->name, '/');
    at = write_until(out, at, REPORT_PAGE_TITLE);
    write_text(out, slash ? slash + 1 : report->source->name);
    at = write_until(out, at, REPORT_PAGE_LEAD);
    write_text(out, lead);
    at = write_until(out, at, REPORT_PAGE_DATA);
    write_data(out, report, against);
    fwrite(at, 1, (size_t)(end - at), out);
    free(lead);
}

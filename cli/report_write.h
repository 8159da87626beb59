/* Writes the page of a report. */
#ifndef ACRE_CLI_REPORT_WRITE_H
#define ACRE_CLI_REPORT_WRITE_H

#include "report.h"

/* Returns true if the tool can write pages; else says what to do. */
bool report_can_write(void);

/* Writes the page. `against` may be NULL. */
void report_write(FILE *out, const struct report *report, const struct report *against);

#endif

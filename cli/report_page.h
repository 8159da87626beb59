/* The page of a report without its data, which cmake/page.cmake puts together from cli/page. */
#ifndef ACRE_CLI_REPORT_PAGE_H
#define ACRE_CLI_REPORT_PAGE_H

#include <stddef.h>

/* The page. Each of the markers below occurs once, in this order. Empty if the tool was built
 * without the library for plots. */
extern const unsigned char report_page[];
extern const size_t report_page_bytes;

#define REPORT_PAGE_TITLE "<!--acre:title-->"
#define REPORT_PAGE_LEAD "<!--acre:lead-->"
#define REPORT_PAGE_DATA "/*acre:data*/"

#endif

/* The HTML page without its data: report.html, which the build turns into an array. It ends with a zero and holds
 * CP_PAGE_MARK once, where the JSON report goes. */
#ifndef CPEQ_HARNESS_REPORT_PAGE_H
#define CPEQ_HARNESS_REPORT_PAGE_H

#define CP_PAGE_MARK "@REPORT@"

extern const char cp_report_page[];

#endif

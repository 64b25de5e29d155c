/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly report of many traces: a table of the processes, and the sums. */
#ifndef MAYFLY_REPORT_MANY_H
#define MAYFLY_REPORT_MANY_H

#include "cli/report/report.h"

/* Several names, a pattern of files that the shell has left, or a folder with traces in it. */
bool report_is_many(int count, char **path);
/* Returns an exit status; a file that cannot be read gets a line on stderr. */
int report_print_many(const struct report *r, int count, char **path);

#endif

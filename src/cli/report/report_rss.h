/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly report --rss: why the resident memory is larger than the heap. */
#ifndef MAYFLY_REPORT_RSS_H
#define MAYFLY_REPORT_RSS_H

#include "cli/open_trace.h"
#include "cli/output.h"

/* An exit status. name: the file's, for messages. */
int report_rss(const struct opened_trace *file, const char *name, const struct output *out,
	       bool json);

/* One line of a summary: how much was resident. Nothing when the trace does not know. */
void print_resident(const struct output *out, const struct mayfly_trace *trace);

#endif

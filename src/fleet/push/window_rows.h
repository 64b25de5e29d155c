/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as rows of a fleet's tables, in ClickHouse's format RowBinary.
 *
 *	trace ── sums by stack, of what was allocated, is live at the end, was live at the peak ──> samples
 *	           (allocated: without what windows before it have, which are its past)
 *	      └── what it says of its process, and what the user says ──> windows: one row
 */
#ifndef MAYFLY_WINDOW_ROWS_H
#define MAYFLY_WINDOW_ROWS_H

#include <mayfly/trace.h>

#include "convert/export/exporter.h"
#include "fleet/push/window_past.h"
#include "fleet/push/window_stacks.h"

/* What the trace does not say. */
struct window_facts {
	uint64_t random; /* its number is made of it: of this attempt */
	struct export_process process;
	const char *version; /* the program's build-id */
	int64_t pushed_s;    /* now */
	/* With which its process was chosen for what it recorded since its last window; 1: for certain.
	 * Its sums are divided by it. */
	double share;
	bool same_share; /* if it has a window, its last one's instead */
	int64_t
	    begin_ns; /* since 1970: it recorded nothing between its last window and then; or 0 */
	uint64_t rss_bytes; /* at the window's end; 0: not known */
};

struct window_rows {
	struct window_stacks stacks; /* those that samples name, and maybe more */
	struct bytes samples, windows;
};

/* The same process of the same service, in every trace of it. */
uint64_t window_process(const struct mayfly_trace *trace, const struct window_facts *facts);

/* What the trace has beyond the past. 0 or a negative enum mayfly_error. The trace says when it began
 * (MAYFLY_ABSENT_START), and ends after the past. */
int window_rows_make(struct window_rows *w, const struct mayfly_trace *trace,
		     const struct window_facts *facts, const struct window_past *past);
void window_rows_free(struct window_rows *w);

#endif

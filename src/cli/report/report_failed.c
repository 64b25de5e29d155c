/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly report: why the trace has no answer. */
#include "cli/report/report.h"
#include "cli/question_said.h"

#include "answer/absent.h"
#include "answer/text_format.h"
#include "answer/trace_names.h"
#include "query/thread_filter.h"

#define MOST_THREADS 8 /* that are named */

static bool no_thread_matches(const struct report *r)
{
	for (size_t i = 0; r->q.thread_given && i < r->file.info->threads; i++)
		if (query_thread_matches(&r->q.query.thread, mayfly_trace_thread(r->file.trace, i)))
			return false;
	return r->q.thread_given;
}

static void print_threads(const struct report *r)
{
	char list[1024] = "", name[128], clean[128];
	size_t threads = r->file.info->threads;

	for (size_t i = 0; i < threads && i < MOST_THREADS; i++) {
		thread_name(name, sizeof(name), r->file.trace, (uint32_t)i);
		text_append(list, sizeof(list), "%s%s", i ? ", " : "",
			    text_clean(clean, sizeof(clean), name));
	}
	print_wrapped(&r->out, STYLE_PLAIN, 2, "No thread matches --thread. The trace has %s%s.",
		      threads ? list : "no threads", threads > MOST_THREADS ? ", ..." : "");
}

void report_print_none(const struct report *r)
{
	if (no_thread_matches(r))
		print_threads(r);
	else
		puts(r->q.filtered || r->q.window_given	     ? "  No block matches these options."
		     : !r->exact			     ? "  No block was sampled."
		     : r->q.query.metric == MAYFLY_LEAKED    ? "  No block of the heap is left."
		     : r->q.query.metric != MAYFLY_ALLOCATED ? "  No such block was recorded."
							     : "  No block was recorded.");
}

/* Whether the view needs what the original file of a converted trace lacks: then prints a line. */
static bool view_lacks(const struct report *r)
{
	uint32_t absent = r->file.info->absent;
	const char *what = report_views[r->view].option;
	char text[512];

	if (r->view == VIEW_CHURN)
		absent &= MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_LIVE | MAYFLY_ABSENT_ALLOCATED;
	else if (r->view == VIEW_SERIES)
		absent &= MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_LIVE;
	else if (r->view == VIEW_HISTOGRAM)
		absent &=
		    r->classes == MAYFLY_BY_SIZE ? MAYFLY_ABSENT_SIZES : MAYFLY_ABSENT_LIFETIMES;
	else
		absent &= r->view == VIEW_REALLOCS ? MAYFLY_ABSENT_SIZES : 0;
	if (absent)
		cli_error("%s: the file that it comes from does not have %s, which %s needs%s",
			  r->path, absent_text(text, sizeof(text), absent), what,
			  times_remedy(r->path, absent));
	return absent;
}

int report_failed(const struct report *r, int error)
{
	const char *what = report_views[r->view].needs_blocks ? report_views[r->view].option
							      : question_needs_blocks(&r->q);

	if (error == MAYFLY_E_ABSENT && r->q.query.metric == MAYFLY_IN_PICTURE)
		return cli_error("%s: has no picture of the heap; 'mayfly ctl PID heap' takes one "
				 "while the program is recorded",
				 r->path);
	if (error == MAYFLY_E_ABSENT && absent_said(r->path, r->file.trace, &r->q))
		return CLI_FAILED;
	if ((error == MAYFLY_E_ABSENT || error == MAYFLY_E_RANGE) && view_lacks(r))
		return CLI_FAILED;
	if (error == MAYFLY_E_TOO_LARGE && r->view == VIEW_SERIES)
		return cli_error("--series %zu: too many rows; ask for fewer with --top",
				 r->moments);
	if (error == MAYFLY_E_TOO_LARGE && r->q.query.by == MAYFLY_BY_THREADS)
		return cli_error("--by threads: %zu threads make too many pairs; use --by thread "
				 "or --by freeing-thread",
				 r->file.info->threads);
	if (error == MAYFLY_E_TOO_LARGE && r->view == VIEW_HISTOGRAM)
		return cli_error("--histogram: too many rows; ask for fewer with --top");
	if (error == MAYFLY_E_RANGE && (r->view == VIEW_SERIES || r->view == VIEW_CHURN))
		return cli_error("--from: the program had ended by then");
	if (error == MAYFLY_E_ABSENT && r->view == VIEW_REALLOCS && !r->file.info->snapshot_ns)
		return cli_error("--reallocs needs every allocation, and this trace has samples: "
				 "record with --exact for that");
	if (error != MAYFLY_E_ABSENT || !what)
		return cli_error("%s", mayfly_error_text(error));
	return cli_error("this trace holds per-stack counters (--snapshots), not single blocks, "
			 "which %s needs; record with --exact for that",
			 what);
}

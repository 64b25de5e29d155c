/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_events.c: events other than allocations: spans, pauses of OCaml's collector, instants,
 * counters, CPU time by thread.
 */
#include "cli/report/report_event_cells.h"

#include <inttypes.h>

#include "answer/trace_facts.h"

static struct track_counts counts_of(const struct event_view *v)
{
	struct track_counts c = {.spans = all_spans(v->rows.spans),
				 .span_types = v->rows.spans->rows};

	for (size_t i = 0; i < v->rows.sums->rows; i++) {
		const struct mayfly_track_sum *sum = &v->rows.sums->row[i];

		if (event_section(event_type(v, sum->type)) == SECTION_INSTANTS)
			c.instants += sum->count;
		else
			c.values += sum->count;
	}
	return c;
}

static void print_events_title(const struct event_view *v)
{
	const struct mayfly_info *info = v->r->file.info;
	struct track_counts counts = counts_of(v);
	char text[256], window[192], lost[192];

	track_counts_text(text, sizeof(text), &counts);
	event_losses_text(lost, sizeof(lost), v, " more");
	print_wrapped(&v->r->out, STYLE_BOLD, 0, "Events: %s%s%s%s", *text ? text : "none",
		      event_window_text(window, sizeof(window), v->r),
		      v->r->q.filtered ? "; filtered" : "", lost);
	if (trace_has_no_blocks(info) && *info->note)
		print_wrapped(&v->r->out, STYLE_DIM, 2, "%s", info->note);
}

static int print_events_text(struct event_view *v)
{
	print_events_title(v);
	if (v->rows.spans->rows || v->rows.spans->unmatched)
		events_print_section(v, "Spans");
	if (!print_span_table(v) || !print_pauses(v) || !print_instants(v) || !print_counters(v) ||
	    !print_cpu_by_thread(v) || !print_buckets(v))
		return cli_error("out of memory");
	return cli_finish();
}

int report_print_events(struct report *r)
{
	struct event_view v = {.r = r};
	int error, status;

	if (!r->file.info->track_events && !r->file.info->dropped_events)
		return cli_error("%s: has no events: no spans, instants or counters", r->path);
	error = event_rows_of_all(&v.rows, r->file.trace, &r->q.query, report_span_sort(r));
	status = error ? report_failed(r, error) : print_event_view(&v, print_events_text);
	event_rows_end(&v.rows);
	return status;
}

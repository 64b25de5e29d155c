/* SPDX-License-Identifier: Apache-2.0 */
/* report_spans.c: types of spans, with what their threads allocated meanwhile. */
#include "cli/report/report_event_cells.h"

#include <inttypes.h>

#include "answer/trace_facts.h"
#include "query/span_bytes.h"

/* A time of spans that ended; "-" when none did. */
static void put_of_ended(struct table *t, const struct mayfly_span_row *row, double ns)
{
	if (row->count)
		table_duration(t, ns);
	else
		table_cell(t, "-");
}

/* What one span allocates, on average. */
static void put_each(struct table *t, const struct event_view *v, const struct mayfly_span_row *row)
{
	if (row->count)
		table_bytes(t, span_bytes_of(v->rows.spans, row->type)->mean);
	else
		table_cell(t, "-");
}

static void put_span_cells(struct table *t, const void *view, size_t i)
{
	const struct event_view *v = view;
	const struct mayfly_span_row *row = v->rows.row[i];
	bool blocks = v->rows.blocks;

	put_event_count(COLUMN(t, "COUNT", true), row->count);
	put_of_ended(COLUMN(t, "TOTAL", true), row, (double)row->total_ns);
	put_of_ended(COLUMN(t, "SELF", true, 4), row, (double)row->self_ns);
	if (!blocks)
		put_of_ended(COLUMN(t, "MEAN", true, 2), row,
			     (double)row->total_ns / (double)row->count);
	put_of_ended(COLUMN(t, "P50", true, blocks ? 5 : 0), row, (double)row->p50_ns);
	if (!blocks)
		put_of_ended(COLUMN(t, "P90", true, 5), row, (double)row->p90_ns);
	put_of_ended(COLUMN(t, "P99", true, blocks ? 2 : 0), row, (double)row->p99_ns);
	put_of_ended(COLUMN(t, "MAX", true, 1), row, (double)row->max_ns);
	if (blocks) {
		table_figure(COLUMN(t, "ALLOCATED", true), 0, &row->allocated.bytes,
			     row->allocated.samples);
		put_each(COLUMN(t, "EACH", true, 3), v, row);
		table_figure(COLUMN(t, "LIVE", true), 0, &row->live.bytes, row->live.samples);
	}
	put_event_type(t, v, "SPAN", row->type);
}

/* What the figures leave out. */
static void print_left_out(const struct event_view *v)
{
	const struct mayfly_spans *s = v->rows.spans;
	uint64_t open = open_spans(s);

	if (open)
		print_wrapped(&v->r->out, STYLE_DIM, 2,
			      "  %" PRIu64 " %s not ended: left out of COUNT and the times", open,
			      open == 1 ? "span had" : "spans had");
	if (s->unmatched)
		print_wrapped(&v->r->out, STYLE_DIM, 2,
			      "  %" PRIu64 " %s of spans whose begin is not recorded", s->unmatched,
			      s->unmatched == 1 ? "end" : "ends");
	if (s->ignored)
		print_wrapped(&v->r->out, STYLE_DIM, 2,
			      "  %" PRIu64 " %s left out: too many were open on their thread",
			      s->ignored, s->ignored == 1 ? "span is" : "spans are");
}

bool print_span_table(struct event_view *v)
{
	size_t rows = v->rows.spans->rows;

	v->categories = false;
	for (size_t i = 0; i < rows; i++)
		v->categories |= *event_type(v, v->rows.spans->row[i].type)->category != 0;
	if (!table_print_rows(&v->r->out, events_shown(v, rows), put_span_cells, v))
		return false;
	events_print_more(v, rows);
	print_left_out(v);
	return true;
}

static const char *sort_text(enum span_sort sort)
{
	static const char *const texts[] = {"self time", "total time", "count",
					    "what they allocate", "what is live of them"};

	return texts[sort];
}

static void print_spans_legend(const struct event_view *v)
{
	putchar('\n');
	if (v->rows.blocks)
		print_wrapped(&v->r->out, STYLE_DIM, 0,
			      "ALLOCATED: by its thread while a span was open, spans inside it "
			      "included; EACH: by one span, on average; LIVE: what of that is live "
			      "at the end. TOTAL and SELF: "
			      "time, SELF without spans inside.");
	else
		print_wrapped(&v->r->out, STYLE_DIM, 0,
			      "This trace has no single blocks, so what spans allocate is unknown. "
			      "SELF: time without spans inside.");
	if (v->rows.blocks && !v->r->exact)
		print_wrapped(&v->r->out, STYLE_DIM, 0,
			      "%s and a..b: 95 %% interval; <=: its upper end.",
			      v->r->out.utf8 ? "±" : "+-");
}

static int print_spans_text(struct event_view *v)
{
	const struct mayfly_info *info = v->r->file.info;
	uint64_t count = all_spans(v->rows.spans);
	char window[192], lost[192];

	event_losses_text(lost, sizeof(lost), v, info->dropped_events == 1 ? " event" : " events");
	print_wrapped(&v->r->out, STYLE_BOLD, 0, "Spans by %s: %" PRIu64 " of %zu %s%s%s%s%s",
		      sort_text(v->rows.sort), count, v->rows.spans->rows,
		      v->rows.spans->rows == 1 ? "type" : "types",
		      event_window_text(window, sizeof(window), v->r),
		      v->r->q.filtered ? "; filtered" : "", lost,
		      *lost ? ", so spans may be missing, or lack their begin or end" : "");
	if (trace_has_no_blocks(info) && *info->note)
		print_wrapped(&v->r->out, STYLE_DIM, 2, "%s", info->note);
	if (!v->rows.spans->rows)
		puts("  No span matches these options.");
	if (!print_span_table(v))
		return cli_error("out of memory");
	print_spans_legend(v);
	return cli_finish();
}

int report_print_spans(struct report *r)
{
	struct event_view v = {.r = r};
	enum span_sort sort = report_span_sort(r);
	bool blocks = trace_has_span_blocks(r->file.info);
	int error, status;

	if (!trace_has_spans(r->file.trace))
		return cli_error(
		    "%s: has no spans for --spans to show; programs create spans with mayfly.h",
		    r->path);
	if (!blocks && report_sorts_blocks(r))
		return cli_error("%s: has no single blocks, which --sort %s needs", r->path,
				 span_sort_names[sort]);
	if (!blocks && r->q.chooses_more)
		return cli_error(
		    "%s: has no single blocks, so options that choose blocks do not work", r->path);
	error = event_rows_of_spans(&v.rows, r->file.trace, &r->q.query, sort);
	status = error ? report_failed(r, error) : print_event_view(&v, print_spans_text);
	event_rows_end(&v.rows);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_fragmentation.c: whose blocks hold nearly empty pages, near the peak and at the end
 * (answer/page_holders.h).
 */
#include "cli/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer/page_holders.h"
#include "answer/text_format.h"

/* A place gets a sentence if it leaves this much empty: share of the heap's pages, and bytes. */
#define SENTENCE_SHARE 0.05
#define SENTENCE_BYTES (256 << 10)

static char *holder_text(char *buffer, size_t size, const struct report *r,
			 const struct page_holder *row)
{
	char location[NAME_BYTES];
	const struct mayfly_module *module;
	size_t used;

	if (!row->frame)
		return text_format(buffer, size, "[unknown]");
	frame_name(buffer, size, r->file.trace, row->frame, row->location);
	used = strlen(buffer);
	module = mayfly_trace_module(r->file.trace, row->frame->module);
	if (*row->location->file || *row->location->function) {
		location_text(location, sizeof(location), row->location->file, row->location->line,
			      module ? module->path : "", r->out.wide);
		snprintf(buffer + used, size - used, "  %.*s", (int)(size - used) - 3, location);
	}
	return buffer;
}

struct holder_table {
	const struct report *r;
	const struct page_holder *row;
};

static void put_holder_cells(struct table *t, const void *context, size_t i)
{
	const struct holder_table *c = context;
	const struct page_holder *row = &c->row[i];
	char text[NAME_BYTES];

	table_bytes(COLUMN(t, "EMPTY", true), page_waste(row) > 0 ? (double)page_waste(row) : 0);
	table_bytes(COLUMN(t, "HELD", true), (double)row->held);
	table_bytes(COLUMN(t, "LIVE", true), (double)row->bytes);
	table_percent(COLUMN(t, "FILLED", true, 0, STYLE_DIM), (double)row->bytes,
		      (double)row->held);
	table_count(COLUMN(t, "BLOCKS", true, 1), (double)row->blocks);
	table_cell(COLUMN(t, "PLACE"), holder_text(text, sizeof(text), c->r, row));
}

static bool print_holders(const struct report *r, const struct page_holder *row, size_t rows)
{
	size_t shown = r->top && r->top < rows ? r->top : rows;

	if (!table_print_rows(&r->out, shown, put_holder_cells, &(struct holder_table){r, row}))
		return false;
	if (shown < rows)
		printf("  %zu other place%s hold fewer empty bytes (--top 0 shows them)\n",
		       rows - shown, rows - shown == 1 ? "" : "s");
	return true;
}

/* What the pages of the worst place are worth, when it matters. */
static void print_worst_holder(const struct report *r, const struct mayfly_fragmentation *m,
			       const struct page_holder *row)
{
	char place[NAME_BYTES], fitted[256], filled[FIGURE_TEXT], held[FIGURE_TEXT],
	    live[FIGURE_TEXT];

	if (page_waste(row) < SENTENCE_BYTES ||
	    (double)page_waste(row) < SENTENCE_SHARE * (double)m->pages * (double)m->page_bytes)
		return;
	frame_name(place, sizeof(place), r->file.trace, row->frame, row->location);
	print_wrapped(&r->out, STYLE_BOLD, 0,
		      "%s holds %" PRIu64 " pages that it fills to %s: %s of memory for %s.",
		      name_fit(fitted, sizeof(fitted), &r->out, place, 60),
		      row->held / m->page_bytes,
		      text_percent(filled, sizeof(filled), (double)row->bytes, (double)row->held),
		      text_bytes(held, sizeof(held), (double)row->held),
		      text_bytes(live, sizeof(live), (double)row->bytes));
}

static bool print_pages(struct report *r, const struct mayfly_fragmentation *m, bool at_end)
{
	char time[FIGURE_TEXT], live[FIGURE_TEXT], held[FIGURE_TEXT], filled[FIGURE_TEXT];
	double bytes = (double)m->pages * (double)m->page_bytes;
	size_t rows;
	struct mayfly_match hide = hidden_frames_match(&r->q.hidden);
	struct page_holder *row = page_holders(r->file.trace, m, &hide, &rows);
	bool done = row != NULL;

	print_wrapped(
	    &r->out, STYLE_BOLD, 0, "%s (%s): %s of live blocks in %s of pages, filled to %s",
	    at_end ? "At the end" : "Near the peak",
	    text_duration(time, sizeof(time), (double)m->time_ns),
	    text_bytes(live, sizeof(live), (double)m->bytes), text_bytes(held, sizeof(held), bytes),
	    m->pages ? text_percent(filled, sizeof(filled), (double)m->bytes, bytes) : "0 %");
	if (done && rows) {
		done = print_holders(r, row, rows);
		if (done && row[0].frame)
			print_worst_holder(r, m, &row[0]);
	}
	free(row);
	return done;
}

int report_print_fragmentation(struct report *r)
{
	const struct mayfly_trace *trace = r->file.trace;
	const struct mayfly_fragmentation *peak = mayfly_trace_fragmentation(trace, false);
	const struct mayfly_fragmentation *end = mayfly_trace_fragmentation(trace, true);

	if (!peak && !end && r->file.info->mode == MAYFLY_SAMPLED)
		return cli_error("%s: samples do not tell how full a page is; record with --exact",
				 r->path);
	if (!peak && !end)
		return cli_error("%s: does not record where blocks lie in memory", r->path);
	if (r->json) {
		struct mayfly_match hide = hidden_frames_match(&r->q.hidden);
		struct json j = json_document();

		json_page_holders(&j, "peak", trace, peak, &hide, r->top);
		json_page_holders(&j, "end", trace, end, &hide, r->top);
		return json_print(&j);
	}
	if (peak && peak != end) {
		if (!print_pages(r, peak, false))
			return cli_error("out of memory");
		putchar('\n');
	}
	if (end && !print_pages(r, end, true))
		return cli_error("out of memory");
	return cli_finish();
}

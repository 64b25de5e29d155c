/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of events share: see report_event_cells.h. */
#include "cli/report/report_event_cells.h"
#include "answer/text_format.h"

#include <inttypes.h>

const struct mayfly_track_type *event_type(const struct event_view *v, uint32_t index)
{
	return mayfly_trace_track_type(v->rows.trace, index);
}

size_t events_shown(const struct event_view *v, size_t rows)
{
	return v->r->top && v->r->top < rows ? v->r->top : rows;
}

void events_print_more(const struct event_view *v, size_t rows)
{
	if (events_shown(v, rows) < rows)
		print_wrapped(&v->r->out, STYLE_DIM, 2, "  %zu more (--top 0 shows all)",
			      rows - events_shown(v, rows));
}

void put_event_count(struct table *t, uint64_t count)
{
	if (count < 100000)
		table_format(t, "%" PRIu64, count);
	else
		table_count(t, (double)count);
}

void put_event_type(struct table *t, const struct event_view *v, const char *title, uint32_t index)
{
	const struct mayfly_track_type *type = event_type(v, index);
	char name[NAME_BYTES];

	if (v->categories)
		table_cell(COLUMN(t, "CATEGORY", false, 3, STYLE_DIM), type->category);
	table_cell(COLUMN(t, title), track_type_name(name, sizeof(name), type));
}

void events_print_section(const struct event_view *v, const char *title)
{
	putchar('\n');
	print_wrapped(&v->r->out, STYLE_BOLD, 0, "%s", title);
}

char *event_window_text(char *buffer, size_t size, const struct report *r)
{
	const struct mayfly_query *q = &r->q.query;
	char from[FIGURE_TEXT], to[FIGURE_TEXT] = "the end";

	*buffer = 0;
	if (!r->q.window_given)
		return buffer;
	text_duration(from, sizeof(from), (double)q->from_ns);
	if (q->to_ns < r->file.info->duration_ns)
		text_duration(to, sizeof(to), (double)q->to_ns);
	return text_format(buffer, size, ", from %s to %s", from, to);
}

char *event_losses_text(char *buffer, size_t size, const struct event_view *v, const char *more)
{
	uint64_t dropped = v->r->file.info->dropped_events, losses = v->rows.losses;

	*buffer = 0;
	if (dropped)
		text_append(buffer, size, "; %" PRIu64 "%s could not be recorded", dropped, more);
	if (losses)
		text_append(buffer, size,
			    "; events are missing at %" PRIu64
			    " moment%s: OCaml's runtime had overwritten them",
			    losses, losses == 1 ? "" : "s");
	return buffer;
}

int print_event_view(struct event_view *v, int (*text)(struct event_view *))
{
	struct json j;

	if (!v->r->json)
		return text(v);
	j = json_document();
	json_events(&j, &v->rows, &v->r->q.query, v->r->top_given ? v->r->top : 0);
	return json_print(&j);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Events other than allocations: see event_rows.h. */
#include "answer/event_rows.h"

#include <stdlib.h>
#include <string.h>

#include "answer/trace_facts.h"
#include "ocaml_events/runtime_rings.h"

const char *const span_sort_names[] = {"self", "total", "count", "allocated", "live", NULL};

/* ---- order ---- */

static double sort_value(const struct mayfly_span_row *row, enum span_sort sort)
{
	switch (sort) {
	case SPAN_SORT_SELF:
		return (double)row->self_ns;
	case SPAN_SORT_TOTAL:
		return (double)row->total_ns;
	case SPAN_SORT_COUNT:
		return (double)row->count;
	case SPAN_SORT_ALLOCATED:
		return row->allocated.bytes.estimate;
	case SPAN_SORT_LIVE:
		return row->live.bytes.estimate;
	}
	return 0;
}

struct sorted_span {
	double value;
	const struct mayfly_span_row *row;
};

static int compare_spans(const void *a, const void *b)
{
	const struct sorted_span *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row; /* as the library has them */
}

static int sort_spans(struct event_rows *e)
{
	size_t rows = e->spans->rows;
	struct sorted_span *sorted = calloc(rows + 1, sizeof(*sorted));

	e->row = calloc(rows + 1, sizeof(const struct mayfly_span_row *));
	for (size_t i = 0; sorted && i < rows; i++)
		sorted[i] =
		    (struct sorted_span){sort_value(&e->spans->row[i], e->sort), &e->spans->row[i]};
	if (sorted)
		qsort(sorted, rows, sizeof(*sorted), compare_spans);
	for (size_t i = 0; sorted && e->row && i < rows; i++)
		e->row[i] = sorted[i].row;
	free(sorted);
	return sorted && e->row ? 0 : MAYFLY_E_MEMORY;
}

/* ---- what is missing ---- */

static bool is_loss(const struct mayfly_track_type *type)
{
	return type->kind == MAYFLY_TYPE_INSTANT && strcmp(type->category, "ocaml") == 0 &&
	       strcmp(type->name, RUNTIME_EVENTS_LOST) == 0;
}

static int count_losses(struct event_rows *e, const struct mayfly_query *query)
{
	size_t types = mayfly_trace_info(e->trace)->track_types, lost = 0;
	struct mayfly_track_sums *sums;
	int error;

	while (lost < types && !is_loss(mayfly_trace_track_type(e->trace, lost)))
		lost++;
	if (lost == types)
		return 0;
	error = mayfly_track_sums_run(e->trace, query, &sums);
	if (error)
		return error;
	for (size_t i = 0; i < sums->rows; i++)
		if (is_loss(mayfly_trace_track_type(e->trace, sums->row[i].type)))
			e->losses += sums->row[i].count;
	mayfly_track_sums_free(sums);
	return 0;
}

/* ---- answers ---- */

int event_rows_of_spans(struct event_rows *e, const struct mayfly_trace *trace,
			const struct mayfly_query *query, enum span_sort sort)
{
	int error;

	*e = (struct event_rows){.trace = trace, .sort = sort};
	e->blocks = trace_has_span_blocks(mayfly_trace_info(trace));
	error = mayfly_spans_run(trace, query, &e->spans);
	if (!error)
		error = count_losses(e, query);
	return error ? error : sort_spans(e);
}

int event_rows_of_all(struct event_rows *e, const struct mayfly_trace *trace,
		      const struct mayfly_query *query, enum span_sort sort)
{
	struct mayfly_query times = *query;
	int error;

	*e = (struct event_rows){.trace = trace, .sort = sort};
	if (!(mayfly_trace_info(trace)->absent & MAYFLY_ABSENT_SIZES)) {
		times.min_size = 1; /* matches no block */
		times.max_size = 0;
	}
	error = mayfly_spans_run(trace, &times, &e->spans);
	if (!error)
		error = mayfly_track_sums_run(trace, query, &e->sums);
	if (!error)
		error = thread_pauses_find(&e->pauses, trace, query, e->spans);
	if (!error)
		error = count_losses(e, query);
	return error ? error : sort_spans(e);
}

void event_rows_end(struct event_rows *e)
{
	free(e->row);
	mayfly_spans_free(e->spans);
	mayfly_track_sums_free(e->sums);
	thread_pauses_free(&e->pauses);
}

/* ---- what there is ---- */

bool trace_has_spans(const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; info->track_events && i < info->track_types; i++)
		if (mayfly_trace_track_type(trace, i)->kind == MAYFLY_TYPE_SPAN)
			return true;
	return false;
}

bool trace_has_span_blocks(const struct mayfly_info *info)
{
	return !trace_has_no_blocks(info) && !info->snapshot_ns;
}

uint64_t open_spans(const struct mayfly_spans *spans)
{
	uint64_t open = 0;

	for (size_t i = 0; i < spans->rows; i++)
		open += spans->row[i].open;
	return open;
}

uint64_t all_spans(const struct mayfly_spans *spans)
{
	uint64_t count = spans->ignored + open_spans(spans);

	for (size_t i = 0; i < spans->rows; i++)
		count += spans->row[i].count;
	return count;
}

static bool is_bucket(const struct mayfly_track_type *type)
{
	return type->kind == MAYFLY_TYPE_COUNTER && strcmp(type->category, "ocaml") == 0 &&
	       strncmp(type->name, "alloc ", 6) == 0;
}

/* It grows, for each thread by itself, so its least and mean say nothing: it has its own table. */
static bool is_thread_cpu(const struct mayfly_track_type *type)
{
	return type->kind == MAYFLY_TYPE_COUNTER && strcmp(type->category, "thread") == 0 &&
	       strcmp(type->name, "thread.cpu") == 0;
}

enum event_section event_section(const struct mayfly_track_type *type)
{
	if (type->kind != MAYFLY_TYPE_COUNTER)
		return SECTION_INSTANTS;
	if (is_thread_cpu(type))
		return SECTION_THREADS;
	return is_bucket(type) ? SECTION_BUCKETS : SECTION_COUNTERS;
}
